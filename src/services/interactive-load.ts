import type { InferenceDependencies } from './inference.ts';

type Engines = InferenceDependencies['engines'];

export interface InteractiveLoad {
  /** Interactive requests that wait for an engine or are at work in one. */
  count(): number;
  /** The same engines, counted. */
  watch(engines: Engines): Engines;
}

export function createInteractiveLoad(): InteractiveLoad {
  let count = 0;
  return {
    count: () => count,
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
              count -= 1;
              lease[Symbol.dispose]();
            },
          };
        } catch (error) {
          count -= 1;
          throw error;
        }
      },
    }),
  };
}
