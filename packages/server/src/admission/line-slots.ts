import { createFairQueue, type QueueContext } from './fair-queue.ts';

export interface WaitingLine {
  accountId: string;
  batchId: string;
  /** Of its account. */
  weight?: number | undefined;
}

/** The right to run one batch line. */
export interface LineSlot {
  release(): void;
}

export interface LineSlots {
  /** Waits for a free slot. Undefined when the signal fires first. */
  take(line: WaitingLine, signal: AbortSignal): Promise<LineSlot | undefined>;
  setLimit(slots: number): void;
  inUse(): number;
  /** No line has a slot or waits for one. */
  isUnused(): boolean;
}

/** Slots beyond the limit, as a share of it, for accounts that have fewer than that. */
const EXTRA_SHARE = 1 / 4;
const extraOf = (slots: number): number => Math.floor(slots * EXTRA_SHARE);

/** The most lines that run with this many slots, with those beyond the limit. */
export const linesIn = (slots: number): number => slots + extraOf(slots);
/** The slots with which at most this many lines run, with those beyond the limit. */
export const slotsFor = (lines: number): number => Math.ceil(lines / (1 + EXTRA_SHARE));

/**
 * Shares slots among accounts, and within an account among its batches. A free slot goes to the one with the fewest, so that a batch
 * with slow lines cannot take all of them. Lines may run for many minutes, so an account does not have to wait for those of others: while
 * they have all slots, it gets a quarter more.
 */
export function createLineSlots(): LineSlots {
  /** By account. */
  const held = new Map<string, number>();
  const heldBy = (accountId: string): number => held.get(accountId) ?? 0;
  const queue = createFairQueue<LineSlot>({
    counting: 'slots',
    obstacle: () => (inUse < linesIn(limit) ? 'account' : 'all'),
  });
  let limit = 0;
  let inUse = 0;

  function count(accountId: string, change: number): void {
    const next = heldBy(accountId) + change;
    if (next === 0) held.delete(accountId);
    else held.set(accountId, next);
  }

  function hold(context: QueueContext): LineSlot {
    const { accountId } = context;
    inUse += 1;
    count(accountId, 1);
    const end = queue.begin(context);
    let released = false;
    return {
      release() {
        if (released) return;
        released = true;
        inUse -= 1;
        count(accountId, -1);
        end();
        queue.wake();
      },
    };
  }

  function mayRun(accountId: string): boolean {
    const extra = extraOf(limit);
    return inUse < limit || (inUse < limit + extra && heldBy(accountId) < extra);
  }

  return {
    async take(line, signal) {
      if (signal.aborted) return undefined;
      const { accountId, batchId } = line;
      const context = { accountId, keyId: batchId, weight: line.weight, priority: 'batch', signal } as const;
      if (queue.waiting() === 0 && mayRun(accountId)) return hold(context);
      const slot = queue.wait(context, () => (mayRun(accountId) ? hold(context) : undefined));
      // Others may wait for a slot that only they may not have.
      queue.wake();
      return await slot.catch(() => undefined);
    },
    setLimit(slots) {
      limit = slots;
      queue.wake();
    },
    inUse: () => inUse,
    isUnused: () => inUse === 0 && queue.waiting() === 0,
  };
}
