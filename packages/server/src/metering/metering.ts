import type { Consumption } from '@baobab/core/domain/measures.ts';
import type { Pricing } from '@baobab/core/domain/model.ts';
import { costNanoUsd } from '@baobab/core/domain/pricing.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { FreshRowOptions, Ledger, LedgerRow } from '@baobab/core/ports/ledger.ts';

/** A request to be billed. Time and cost are added here. */
export interface MeteredRequest {
  /** Billed once. The request id, or an id that is the same for every attempt, such as that of a batch line. */
  billingId: string;
  /** The answer is stored, too: without the store there is none, and no bill. */
  isStored?: boolean | undefined;
  requestId: string;
  accountId: string;
  keyId: string;
  /** The slug without a pin. */
  model: string;
  version: string;
  /** Where it was served. */
  region: string;
  endpoint: string;
  used: Consumption;
  /** The current prices of the catalog. */
  pricing: Pricing;
  discountPercent?: number | undefined;
  status: number;
  durationMs: number;
  firstTokenMs?: number | null | undefined;
}

export interface Metered {
  costNanoUsd: number;
  /** The time of the row. It decides which month is charged. */
  time: number;
  /** False: an earlier attempt, interrupted by a crash, was billed already. */
  isNew: boolean;
}

export interface Metering {
  /** Resolves when the row is durable. The answer must not end before. A billing id that exists already changes nothing. */
  record(request: MeteredRequest): Promise<Metered>;
  /** Rows that wait for a commit. */
  readonly waiting: number;
}

export interface MeteringDependencies {
  ledger: Ledger;
  clock: Clock;
  /** Called once for each new row, when it is durable. */
  onBilled?: ((row: LedgerRow) => void) | undefined;
  /** Requests that run, including those whose row waits. A row waits for others only while more can come. */
  runningRequests?: (() => number) | undefined;
  /** Rows in one commit. */
  commitRows?: number | undefined;
  /** `record` fails beyond it, so that a store that hangs does not fill the memory. */
  maxWaiting?: number | undefined;
}

interface Waiting {
  row: LedgerRow;
  resolve(metered: Metered): void;
  reject(error: unknown): void;
}

const FRESH_COMMITS = 2;

/** A row under the request's own id cannot be in the ledger yet. Rows of repeated attempts are looked up, in commits of their own. */
export function createMetering(dependencies: MeteringDependencies): Metering {
  const { ledger, clock, onBilled = () => {}, runningRequests, commitRows = 500, maxWaiting = 20_000 } = dependencies;

  /** Writes the rows with one call and settles their promises. `append` may return whether each row is new. */
  async function commit(
    group: readonly Waiting[],
    append: (rows: readonly LedgerRow[]) => Promise<readonly boolean[]> | Promise<void>,
  ): Promise<void> {
    try {
      const areNew = await append(group.map(({ row }) => row));
      const isNew = (index: number) => !Array.isArray(areNew) || areNew[index] === true;
      // All promises first: `onBilled` may throw.
      group.forEach(({ row: { costNanoUsd, time }, resolve }, index) => {
        resolve({ costNanoUsd, time, isNew: isNew(index) });
      });
      group.forEach(({ row }, index) => {
        if (isNew(index)) onBilled(row);
      });
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }

  const freshCommits = (options?: FreshRowOptions) =>
    createGroupCommit<Waiting>({
      most: commitRows,
      atOnce: FRESH_COMMITS,
      eager: true,
      expected: runningRequests,
      commit: (group) => commit(group, (rows) => ledger.appendFresh(rows, options)),
    });
  const fresh = freshCommits();
  const stored = freshCommits({ inStore: true });
  const repeatable = createGroupCommit<Waiting>({
    most: commitRows,
    atOnce: 1,
    eager: false,
    commit: (group) => commit(group, ledger.append),
  });
  const waiting = () => fresh.waiting + stored.waiting + repeatable.waiting;

  return {
    get waiting() {
      return waiting();
    },
    // Not an async function: it would add a promise to each of thousands of rows a second.
    record: (request) =>
      new Promise((resolve, reject) => {
        if (waiting() >= maxWaiting) throw new Error(`${waiting()} ledger rows wait for the store`);
        const freshOrStored = request.isStored ? stored : fresh;
        const commits = request.billingId === request.requestId ? freshOrStored : repeatable;
        commits.add({ row: toRow(request, clock.now()), resolve, reject });
      }),
  };
}

/** Throws on counts that are not whole numbers, before a bad row fails the commit of others. */
function toRow(request: MeteredRequest, time: number): LedgerRow {
  const { used, pricing, firstTokenMs = null, discountPercent = 0 } = request;
  return {
    billingId: request.billingId,
    requestId: request.requestId,
    time,
    accountId: request.accountId,
    keyId: request.keyId,
    model: request.model,
    version: request.version,
    region: request.region,
    endpoint: request.endpoint,
    ...used,
    costNanoUsd: costNanoUsd(used, pricing, discountPercent),
    pricing,
    discountPercent,
    status: request.status,
    durationMs: wholeMs(request.durationMs),
    firstTokenMs: firstTokenMs === null ? null : wholeMs(firstTokenMs),
  };
}

function wholeMs(ms: number): number {
  const rounded = Math.round(ms);
  if (!Number.isSafeInteger(rounded)) throw new RangeError(`a duration of ${ms} ms`);
  return rounded;
}

interface GroupCommitOptions<T> {
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

interface GroupCommit<T> {
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
