import type { ModelParts } from './models.ts';

/** Share of this process's time beyond which requests wait for each other. */
const OVERLOAD = 0.9;

/** Whether this process has been busy for a few calls while there are interactive requests. */
export function createOverload({ fleet }: Pick<ModelParts, 'fleet'>): () => boolean {
  let last = performance.eventLoopUtilization();
  let smoothed = 0;
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, last);
    last = now;
    smoothed += (utilization - smoothed) / 4;
    return smoothed > OVERLOAD && fleet.interactiveRequests() > 0;
  };
}
