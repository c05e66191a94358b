import type { BatchLane } from '@baobab/core/engine/engine.ts';
import { createFairQueue, type QueueContext } from './fair-queue.ts';

/** Slots for batch lines. Lines at one model's upstreams have their own, so that they do not wait for slow lines elsewhere. */
export interface LineLanes {
  /** Waits for a free slot in the lane. Undefined when the signal fires first. */
  take(lane: BatchLane, line: WaitingLine, signal: AbortSignal): Promise<LineSlot | undefined>;
  /** Adapts the number of slots to the interactive requests of this moment. To be called regularly. */
  adjust(): void;
}

export interface LineLanesOptions {
  /** Slots of a lane when there are no interactive requests. */
  concurrency: number;
  /** Interactive requests are slow because this process is busy. */
  isOverloaded(): boolean;
  adjustMs: number;
}

export function createLineLanes({ concurrency, isOverloaded, adjustMs }: LineLanesOptions): LineLanes {
  const lanes = new Map<string, { lane: BatchLane; slots: LineSlots; control: ConcurrencyControl }>();
  /** As of the last adjustment: asked in between, it would see only the work of this moment, which is always busy. */
  let overloaded = false;

  function slotsOf(lane: BatchLane): LineSlots {
    const known = lanes.get(lane.name);
    if (known?.lane === lane) return known.slots;
    // Lines that run keep their slots when the upstreams of a model are replaced.
    const slots = known?.slots ?? createLineSlots();
    const control = createConcurrencyControl({ lane, concurrency, everyMs: adjustMs });
    slots.setLimit(control.adjust(overloaded));
    lanes.set(lane.name, { lane, slots, control });
    return slots;
  }

  return {
    take: (lane, line, signal) => slotsOf(lane).take(line, signal),
    adjust() {
      overloaded = isOverloaded();
      for (const [name, { slots, control }] of lanes) {
        slots.setLimit(control.adjust(overloaded));
        // Models come and go. Lines that an upstream has refused are no longer in a slot, and come again: the lane stays until it has recovered.
        if (slots.isUnused() && control.hasRecovered()) lanes.delete(name);
      }
    },
  };
}

/** Decides how many batch lines may run in a lane, so that they hardly slow interactive requests. */
export interface ConcurrencyControl {
  /** Returns the limit until the next call. `isOverloaded`: interactive requests are slow because this process is busy. */
  adjust(isOverloaded: boolean): number;
  /** The last limit was the most: a new control would begin with the same. */
  hasRecovered(): boolean;
}

export interface ConcurrencyControlOptions {
  lane: Pick<BatchLane, 'most' | 'mustYield' | 'recoveryMs'>;
  /** Lines that run at a time when nothing else does. */
  concurrency: number;
  /** Time between two adjustments. */
  everyMs: number;
}

/** Halves the limit while lines are in the way, down to one line, so that batches always advance. Otherwise raises it in equal steps. */
export function createConcurrencyControl(options: ConcurrencyControlOptions): ConcurrencyControl {
  const { lane, concurrency, everyMs } = options;
  /** Not always whole: lanes that recover slowly gain less than a line at a time. */
  let limit: number | undefined;
  let isMost = true;
  return {
    adjust(isOverloaded) {
      // A line in a slot beyond the limit must be able to run too, or it would wait there for the long lines of others.
      const most = slotsFor(lane.most(linesIn(concurrency)));
      if (lane.mustYield() || isOverloaded) limit = Math.max(1, Math.floor(Math.min(limit ?? 1, most) / 2));
      else limit = Math.min(most, (limit ?? most) + (concurrency * everyMs) / lane.recoveryMs);
      isMost = limit === most;
      return Math.floor(limit);
    },
    hasRecovered: () => isMost,
  };
}

interface WaitingLine {
  accountId: string;
  batchId: string;
  /** Of its account. */
  weight?: number | undefined;
}

/** The right to run one batch line. */
export interface LineSlot {
  release(): void;
}

interface LineSlots {
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
const linesIn = (slots: number): number => slots + extraOf(slots);
/** The slots with which at most this many lines run, with those beyond the limit. */
const slotsFor = (lines: number): number => Math.ceil(lines / (1 + EXTRA_SHARE));

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
