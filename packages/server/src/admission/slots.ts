import type { Priority } from '@baobab/core/engine/engine.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import { createFairQueue, Drain, type FairQueue, type QueueContext, type QueueSize } from './fair-queue.ts';

/** Lets a bounded number of requests work at once. The others wait in a fair queue. */
export interface SlotsOptions {
  queueLength: number;
  /** What a request takes of the queue. 1 by default. */
  sizeOf?: QueueSize | undefined;
  /** Undefined: as long as it takes. */
  queueTimeoutMs: number | undefined;
  clock: Clock;
  onDepth?(waiting: number): void;
}

/** How many of these slots one account, or batches, may hold: a quarter stays free for others, but a single one may be taken. */
export const allButAQuarter = (slots: number): number => slots - Math.ceil((slots - 1) / 4);

export interface Permit {
  waitedMs: number;
  /** May be called more than once. */
  release(): void;
}

export interface Slots {
  /** Undefined when there is no free slot, or others wait for it already. */
  enterNow(context: QueueContext): Permit | undefined;
  enter(context: QueueContext): Promise<Permit>;
  /** How many requests may work at once, none before the first call, and how many of one account; as many by default. */
  setCapacity(slots: number, perAccount?: number): void;
  rejectAll(error: Error): void;
  waiting(): number;
  inUse(): number;
}

export function createSlots(options: SlotsOptions): Slots {
  const { queueLength, sizeOf, queueTimeoutMs, clock, onDepth } = options;
  /** Slots by account. */
  const held = new Map<string, number>();
  let capacity = 0;
  let maxPerAccount: number | undefined;
  let inUse = 0;
  let batchInUse = 0;
  const drain = new Drain();

  const queue: FairQueue<Permit> = createFairQueue({
    bound: {
      length: queueLength,
      sizeOf,
      timeoutMs: queueTimeoutMs,
      retryAfterSeconds: () => drain.retryAfterSeconds(queue.waiting(), capacity),
    },
    obstacle: ({ priority }) => (isFree(priority) ? 'account' : 'all'),
    ...(onDepth && { onDepth }),
  });

  /** Where there are several slots, batches leave one free, so that an interactive request never waits for a long batch line. */
  const isFree = (priority: Priority) =>
    inUse < capacity && (priority !== 'batch' || batchInUse < Math.max(1, capacity - 1));

  /** The batches of an account leave one of its slots to its other requests. */
  const mostOf = (priority: Priority, most: number) => (priority === 'batch' ? Math.max(1, most - 1) : most);

  const mayRun = ({ priority, accountId }: QueueContext) =>
    isFree(priority) && (maxPerAccount === undefined || (held.get(accountId) ?? 0) < mostOf(priority, maxPerAccount));

  function countHeld(accountId: string, change: number): void {
    const count = (held.get(accountId) ?? 0) + change;
    if (count === 0) held.delete(accountId);
    else held.set(accountId, count);
  }

  function take(context: QueueContext, waitedMs: number): Permit {
    const { priority, accountId } = context;
    const since = clock.now();
    const end = queue.begin(context);
    inUse += 1;
    if (priority === 'batch') batchInUse += 1;
    countHeld(accountId, 1);
    let released = false;
    return {
      waitedMs,
      release() {
        if (released) return;
        released = true;
        inUse -= 1;
        if (priority === 'batch') batchInUse -= 1;
        countHeld(accountId, -1);
        end();
        drain.ended(clock.now() - since);
        queue.wake();
      },
    };
  }

  function enterNow(context: QueueContext): Permit | undefined {
    // With a bound for each account, a slot that is free while others wait is one that they may not take.
    const free = mayRun(context) && (maxPerAccount !== undefined || !queue.isBehindOthers(context.priority));
    return free && !context.signal.aborted ? take(context, 0) : undefined;
  }

  return {
    enterNow,
    async enter(context) {
      const permit = enterNow(context);
      if (permit !== undefined) return permit;
      const since = clock.now();
      return await queue.wait(context, () => (mayRun(context) ? take(context, clock.now() - since) : undefined));
    },
    setCapacity(slots, perAccount) {
      capacity = slots;
      maxPerAccount = perAccount;
      queue.wake();
    },
    rejectAll: queue.rejectAll,
    waiting: queue.waiting,
    inUse: () => inUse,
  };
}
