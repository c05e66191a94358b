export interface GroupCommitOptions<T> {
  /** In one commit. */
  most: number;
  /** Commits under way at a time: what comes next need not wait for the end of one, and still goes in groups. */
  atOnce: number;
  /**
   * What comes alone does not wait for others, not even of the same turn; what comes quickly waits a little. Without it, all of one turn
   * goes together.
   */
  eager: boolean;
  /** Never rejects. */
  commit(group: readonly T[]): Promise<void>;
}

export interface GroupCommit<T> {
  /** Not in a commit yet. */
  readonly waiting: number;
  add(item: T): void;
}

/** A synced write costs as much processor time as half of the rest of a small request; for a part of it one may wait so long. */
const GATHER_MS = 0.5;
/** Where the others fail to come. The shortest that a timer can. */
const GIVE_UP_MS = 1;
/** Longer silences count as this one. */
const LONGEST_GAP_MS = 10;
/** How much the last gap counts. */
const GAP_WEIGHT = 1 / 32;

/** Tells how many are to be expected within the time that one may wait for others. */
function createPace() {
  let lastAt = performance.now();
  let gapMs = LONGEST_GAP_MS;
  return {
    note(now: number): void {
      gapMs += (Math.min(now - lastAt, LONGEST_GAP_MS) - gapMs) * GAP_WEIGHT;
      lastAt = now;
    },
    company: (): number => 1 + Math.floor(GATHER_MS / gapMs),
  };
}

/** What arrives in one turn of the event loop, or while enough commits are running, goes together in the next one. */
export function createGroupCommit<T>({ most, atOnce, eager, commit }: GroupCommitOptions<T>): GroupCommit<T> {
  const pace = createPace();
  let queue: T[] = [];
  let oldestAt = 0;
  let committing = 0;
  let isScheduled = false;
  let lastSize = 0;
  let isTimed = false;

  async function begin(): Promise<void> {
    isScheduled = false;
    committing += 1;
    const group = queue.slice(0, most);
    queue = queue.slice(most);
    lastSize = group.length;
    beginSoon();
    await commit(group);
    committing -= 1;
    beginSoon();
  }

  function beginSoon({ hasWaited = false } = {}): void {
    if (isScheduled || committing === atOnce || queue.length === 0) return;
    if (eager && !hasWaited && queue.length < pace.company()) {
      lookAgain();
      return;
    }
    // Where they come several at a time, the first one would only cost the others a commit more.
    if (eager && committing === 0 && lastSize <= 1) {
      void begin();
      return;
    }
    isScheduled = true;
    setImmediate(begin);
  }

  function lookAgain(): void {
    if (isTimed) return;
    isTimed = true;
    setTimeout(() => {
      isTimed = false;
      if (queue.length > 0) beginSoon({ hasWaited: performance.now() - oldestAt >= GATHER_MS });
    }, GIVE_UP_MS);
  }

  return {
    get waiting() {
      return queue.length;
    },
    add(item) {
      if (eager) {
        const now = performance.now();
        pace.note(now);
        if (queue.length === 0) oldestAt = now;
      }
      queue.push(item);
      beginSoon();
    },
  };
}
