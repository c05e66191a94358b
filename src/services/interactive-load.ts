import type { Clock } from '../ports/clock.ts';
import type { InferenceDependencies } from './inference.ts';

type Engines = InferenceDependencies['engines'];

export interface InteractiveLoad {
  /**
   * Interactive requests that wait for an engine or are at work in one; at least 1 for a while after the last of them, because
   * whoever asks one thing after the other should not find the engines filled up in between.
   */
  count(): number;
  /** The same engines, counted. */
  watch(engines: Engines): Engines;
}

const QUIET_AFTER_MS = 500;

export function createInteractiveLoad(clock: Clock): InteractiveLoad {
  let count = 0;
  let lastEndedAt = Number.NEGATIVE_INFINITY;
  const leave = () => {
    count -= 1;
    lastEndedAt = clock.now();
  };
  return {
    count: () => Math.max(count, clock.now() - lastEndedAt < QUIET_AFTER_MS ? 1 : 0),
    watch: (engines) => ({
      async acquire(model, context, regionPin) {
        if (context.priority !== 'interactive') return engines.acquire(model, context, regionPin);
        count += 1;
        try {
          const lease = await engines.acquire(model, context, regionPin);
          return {
            engine: lease.engine,
            region: lease.region,
            [Symbol.dispose]() {
              leave();
              lease[Symbol.dispose]();
            },
          };
        } catch (error) {
          leave();
          throw error;
        }
      },
    }),
  };
}
