export interface GroupCommitOptions<T> {
  /** Most items in one commit. */
  most: number;
  /** Commits that may run at a time. */
  atOnce: number;
  /**
   * Commits a single item at once, and waits a little for more when items arrive quickly. Without it, all items of one turn
   * of the event loop are committed together.
   */
  eager: boolean;
  /** The most items that can be waiting now. A commit does not wait for more than these. Default: any number. */
  expected?: (() => number) | undefined;
  /** Never rejects. */
  commit(group: readonly T[]): Promise<void>;
}

export interface GroupCommit<T> {
  /** Items that are in no commit yet. */
  readonly waiting: number;
  add(item: T): void;
}

/** A synced write takes half as much CPU time as the rest of a small request, which makes this wait worth it. */
const GATHER_MS = 0.5;
/** When no further items arrive. The shortest time that a timer can wait. */
const GIVE_UP_MS = 1;
/** Longer gaps count as this one. */
const LONGEST_GAP_MS = 10;
/** Weight of the last gap in the average. */
const GAP_WEIGHT = 1 / 32;

/** Estimates how many items arrive within the time that one may wait. */
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

/** Items that arrive in one turn of the event loop, or while enough commits are running, share the next commit. */
export function createGroupCommit<T>(options: GroupCommitOptions<T>): GroupCommit<T> {
  const { most, atOnce, eager, expected = () => Number.POSITIVE_INFINITY, commit } = options;
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
    if (eager && !hasWaited && queue.length < Math.min(pace.company(), expected())) {
      lookAgain();
      return;
    }
    // When items come several at a time, committing the first alone would only cost an extra commit.
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
