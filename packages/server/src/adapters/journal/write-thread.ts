/** The slower choice is tried once in so many writes, in case it has become the faster one. */
const TRY_EVERY = 16;
/** Weight of the last write in an average. */
const WEIGHT = 1 / 16;
/** While writes of the pool take longer on average, none may hold up this thread. */
const SHORT_MS = 0.5;
/** Slower writes count as this: a rare pause of the disk decides nothing. */
const LONGEST_MS = 1;

/** `this`: saves two switches between threads, but nothing else runs meanwhile. */
export type WriteThread = 'this' | 'pool';

export interface WriteThreadChoice {
  next(): WriteThread;
  /** How long a write took until this thread went on. */
  note(thread: WriteThread, ms: number): void;
}

/**
 * Chooses the thread on which writes took less time lately. A thread that sleeps until the disk is done may get its core back late when
 * other programs want it. The threads of the pool, which do little else, get theirs sooner.
 */
export function createWriteThreadChoice(): WriteThreadChoice {
  const averageMs = { this: 0, pool: LONGEST_MS };
  let choices = 0;
  return {
    next() {
      if (averageMs.pool > SHORT_MS) return 'pool';
      choices += 1;
      const isThisFaster = averageMs.this < averageMs.pool;
      return isThisFaster === (choices % TRY_EVERY !== 0) ? 'this' : 'pool';
    },
    note(thread, ms) {
      averageMs[thread] += (Math.min(ms, LONGEST_MS) - averageMs[thread]) * WEIGHT;
    },
  };
}
