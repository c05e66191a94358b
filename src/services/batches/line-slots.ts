/** The right to run one batch line. */
export interface LineSlot {
  release(): void;
}

export interface LineSlots {
  /** Waits for a free slot. Undefined when the signal fires first. */
  take(line: { accountId: string; batchId: string }, signal: AbortSignal): Promise<LineSlot | undefined>;
  setLimit(slots: number): void;
  inUse(): number;
  /** No line has a slot or waits for one. */
  isUnused(): boolean;
}

interface Waiter {
  accountId: string;
  batchId: string;
  grant(slot: LineSlot): void;
}

/** Slots beyond the limit, as a share of it, for accounts that have fewer than that. */
const EXTRA_SHARE = 1 / 4;
const extraOf = (slots: number): number => Math.floor(slots * EXTRA_SHARE);

/** The places that this many slots need, with those beyond the limit. */
export const placesFor = (slots: number): number => slots + extraOf(slots);
/** The slots that have room in this many places, with those beyond the limit. */
export const slotsIn = (places: number): number => Math.ceil(places / (1 + EXTRA_SHARE));

/**
 * Shares slots among accounts, and within an account among its batches. A free slot goes to the one with the fewest, so that a batch
 * with slow lines cannot take all of them. Lines may run for many minutes, so an account does not have to wait for those of others: while
 * they have all slots, it gets a quarter more.
 */
export function createLineSlots(): LineSlots {
  const waiters = new Set<Waiter>();
  const held = new Map<string, number>();
  let limit = 0;
  let inUse = 0;

  const count = (name: string, change: number) => {
    const next = (held.get(name) ?? 0) + change;
    if (next === 0) held.delete(name);
    else held.set(name, next);
  };
  const heldBy = (waiter: Waiter) => [held.get(waiter.accountId) ?? 0, held.get(waiter.batchId) ?? 0] as const;

  /** Waiters are in order of arrival, so equal ones alternate. */
  function next(): Waiter | undefined {
    let chosen: Waiter | undefined;
    let [fewestOfAccount, fewestOfBatch] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
    for (const waiter of waiters) {
      const [ofAccount, ofBatch] = heldBy(waiter);
      if (ofAccount < fewestOfAccount || (ofAccount === fewestOfAccount && ofBatch < fewestOfBatch)) {
        chosen = waiter;
        [fewestOfAccount, fewestOfBatch] = [ofAccount, ofBatch];
      }
    }
    return chosen;
  }

  function hold({ accountId, batchId }: { accountId: string; batchId: string }): LineSlot {
    inUse += 1;
    count(accountId, 1);
    count(batchId, 1);
    let released = false;
    return {
      release() {
        if (released) return;
        released = true;
        inUse -= 1;
        count(accountId, -1);
        count(batchId, -1);
        pump();
      },
    };
  }

  function mayRun(waiter: Waiter): boolean {
    const extra = extraOf(limit);
    return inUse < limit || (inUse < limit + extra && heldBy(waiter)[0] < extra);
  }

  function pump(): void {
    for (;;) {
      const waiter = next();
      if (waiter === undefined || !mayRun(waiter)) return;
      waiters.delete(waiter);
      waiter.grant(hold(waiter));
    }
  }

  return {
    async take(line, signal) {
      if (signal.aborted) return undefined;
      if (waiters.size === 0 && inUse < limit) return hold(line);
      return new Promise((resolve) => {
        const leave = () => {
          waiters.delete(waiter);
          resolve(undefined);
        };
        const waiter: Waiter = {
          ...line,
          grant(slot) {
            signal.removeEventListener('abort', leave);
            resolve(slot);
          },
        };
        signal.addEventListener('abort', leave, { once: true });
        waiters.add(waiter);
        pump();
      });
    },
    setLimit(slots) {
      limit = slots;
      pump();
    },
    inUse: () => inUse,
    isUnused: () => inUse === 0 && waiters.size === 0,
  };
}
