import { AggregatorRegistry, type Registry } from 'prom-client';

/** The values of one process. */
export type MetricsSnapshot = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/** One text for all workers: each has a label of its own, so that no value is mixed with that of another one. */
export const mergeMetrics = (snapshots: readonly MetricsSnapshot[]): Promise<string> =>
  AggregatorRegistry.aggregate([...snapshots]).metrics();
