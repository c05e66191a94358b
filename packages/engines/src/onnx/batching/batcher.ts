import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Priority } from '@baobab/core/engine/engine.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Row } from '../pooling.ts';
import type { EncoderBatch, EncoderSequence, EncoderSession } from '../session.ts';
import { createPending, type Pending } from './pending.ts';

export interface BatcherOptions extends WindowOptions {
  /** Tokens that may wait in all. */
  maxPendingTokens: number;
}

export interface Work {
  sequences: readonly EncoderSequence[];
  signal: AbortSignal;
  priority: Priority;
  /** Called once for each sequence, in no fixed order; the row is only valid during the call. */
  onRow(index: number, row: Row): void;
}

interface Job extends Work {
  pending: Pending;
  unfinished: number;
  settle(error?: unknown): void;
}

interface Member {
  job: Job;
  index: number;
}

interface Batch {
  batch: EncoderBatch;
  members: Member[];
}

/** The oldest request leads one of this many batches, so that smaller ones cannot hold it up forever. */
const BATCHES_FOR_OLDEST = 4;

export interface Batcher {
  submit(work: Work): Promise<void>;
  readonly pendingTokens: number;
}

/**
 * Turns the sequences of all running requests into micro-batches. Nothing is delayed on purpose: an idle session starts at once, a
 * busy one takes everything that arrived meanwhile. The request with the least work left leads a batch; of about equal ones the oldest.
 * So a short request never waits for the end of a long one, and long ones end one after the other: if they took turns, all would end
 * together, and the processes would wait until their clients have sent new ones. The other sequences have nearly the same length and
 * come from all requests.
 */
export function createBatcher(session: Pick<EncoderSession, 'run'>, options: BatcherOptions): Batcher {
  /** In the order of their arrival. */
  let jobs: Job[] = [];
  let batches = 0;
  let pendingTokens = 0;
  let running = false;

  const remove = (job: Job) => {
    jobs = jobs.filter((other) => other !== job);
    pendingTokens -= job.pending.tokens;
  };

  const fail = (job: Job, error: unknown) => {
    if (jobs.includes(job)) remove(job);
    job.settle(error);
  };

  /** Those that go first. */
  function inTurn(): Job[] {
    const byAge = ++batches % BATCHES_FOR_OLDEST === 0;
    const turns = jobs.map((job) => ({ job, size: byAge ? 0 : sizeClass(job.pending.tokens) }));
    const isBatch = ({ priority }: Job) => Number(priority === 'batch');
    return turns
      .sort((left, right) => isBatch(left.job) - isBatch(right.job) || left.size - right.size)
      .map(({ job }) => job);
  }

  function takeBatch(): Batch | undefined {
    const turns = inTurn();
    const ownLength = turns[0]?.pending.longest();
    if (ownLength === undefined) return undefined;
    const range = lengthRangeOf(ownLength, options);
    const waiting = jobs.flatMap(({ pending }) => pending.lengths(range, options.maxRows)).sort((a, b) => a - b);
    const { shortest, longest, rows } = chooseWindow(ownLength, waiting, options);
    const members: Member[] = [];
    for (const job of turns) {
      while (members.length < rows) {
        const index = job.pending.take(shortest, longest);
        if (index === undefined) break;
        pendingTokens -= sequenceOf({ job, index }).ids.length;
        members.push({ job, index });
      }
    }
    jobs = jobs.filter((job) => job.pending.longest() !== undefined);
    const sequences = members.map(sequenceOf);
    return { batch: { sequences, length: Math.max(...sequences.map(({ ids }) => ids.length)) }, members };
  }

  async function runBatch({ batch, members }: Batch): Promise<void> {
    try {
      const output = await session.run(batch);
      members.forEach(({ job, index }, row) => {
        if (job.unfinished === 0) return;
        job.onRow(index, { output, row, tokens: sequenceOf({ job, index }).ids.length });
        job.unfinished--;
        if (job.unfinished === 0) job.settle();
      });
    } catch (error) {
      for (const { job } of members) fail(job, error);
    }
  }

  async function drain() {
    // An idle session starts at once, with everything submitted in the same tick.
    await undefined;
    while (jobs.length > 0) {
      const taken = takeBatch();
      if (taken) await runBatch(taken);
      // The runtime blocks the event loop. Let requests in that arrived meanwhile.
      await nextTurn();
    }
    running = false;
  }

  return {
    get pendingTokens() {
      return pendingTokens;
    },
    async submit(work) {
      if (work.signal.aborted) throw cancellation(work.signal);
      if (work.sequences.length === 0) return;
      const pending = createPending(work.sequences);
      if (pendingTokens > 0 && pendingTokens + pending.tokens > options.maxPendingTokens) {
        throw errors.capacityExceeded(1, 'too many tokens are waiting');
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const onAbort = () => fail(job, cancellation(work.signal));
      const job: Job = {
        ...work,
        pending,
        unfinished: work.sequences.length,
        settle(error) {
          job.unfinished = 0;
          work.signal.removeEventListener('abort', onAbort);
          if (error === undefined) resolve();
          else reject(error);
        },
      };
      work.signal.addEventListener('abort', onAbort);
      jobs.push(job);
      pendingTokens += pending.tokens;
      if (!running) {
        running = true;
        void drain();
      }
      return promise;
    },
  };
}

/** Equal for amounts of work that differ by less than a factor of two or so. */
const sizeClass = (tokens: number): number => Math.floor(Math.log2(tokens));

function sequenceOf({ job, index }: Member): EncoderSequence {
  return job.sequences[index] as EncoderSequence;
}

interface WindowOptions {
  /** Tokens in a micro-batch, about, padding included. */
  tokenBudget: number;
  /** Sequences in one micro-batch. */
  maxRows: number;
  /** A batch takes no sequences shorter than this share of its longest one. */
  minFill: number;
  /** The fixed cost of a run, in tokens. */
  runTokens: number;
}

/** Which lengths go together into a micro-batch. */
interface BatchWindow {
  shortest: number;
  longest: number;
  rows: number;
}

/** Lengths that may share a batch with a sequence of this one. */
function lengthRangeOf(length: number, { minFill }: WindowOptions): { shortest: number; longest: number } {
  return { shortest: Math.ceil(length * minFill), longest: Math.floor(length / minFill) };
}

/**
 * Chooses the batch with the most real tokens for its cost that contains a sequence of length `lead`. Larger batches save runs, unequal
 * lengths cost padding. `waiting`: the waiting lengths in rising order, including `lead`.
 */
export function chooseWindow(lead: number, waiting: readonly number[], options: WindowOptions): BatchWindow {
  const { tokenBudget, maxRows, minFill, runTokens } = options;
  let best: BatchWindow = { shortest: lead, longest: lead, rows: 1 };
  let bestYield = 0;
  for (let last = waiting.lastIndexOf(lead); last < waiting.length; last++) {
    const longest = waiting[last] as number;
    const rows = Math.min(maxRows, Math.max(1, Math.floor(tokenBudget / longest)), last + 1);
    let tokens = 0;
    for (let taken = 1; taken <= rows; taken++) {
      const shortest = waiting[last + 1 - taken] as number;
      if (shortest < longest * minFill) break;
      tokens += shortest;
      const gain = tokens / (taken * longest + runTokens);
      if (shortest > lead || gain <= bestYield) continue;
      bestYield = gain;
      best = { shortest, longest, rows: taken };
    }
  }
  return best;
}
