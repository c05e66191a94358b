import type { BatchLane } from '../../engines/engine.ts';
import { placesFor, slotsIn } from './line-slots.ts';

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
      // A line in a slot beyond the limit must find a place too, or it would wait there for the long lines of others.
      const most = slotsIn(lane.most(placesFor(concurrency)));
      if (lane.mustYield() || isOverloaded) limit = Math.max(1, Math.floor(Math.min(limit ?? 1, most) / 2));
      else limit = Math.min(most, (limit ?? most) + (concurrency * everyMs) / lane.recoveryMs);
      isMost = limit === most;
      return Math.floor(limit);
    },
    hasRecovered: () => isMost,
  };
}
