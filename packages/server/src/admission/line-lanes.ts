import type { BatchLane } from '@baobab/core/engine/engine.ts';
import { createLineSlots, type LineSlot, type LineSlots, linesIn, slotsFor, type WaitingLine } from './line-slots.ts';

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
