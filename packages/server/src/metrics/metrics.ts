import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { createRequestMetrics } from './request-metrics.ts';

export type Metrics = ReturnType<typeof createMetrics>;

export interface WorkerMetrics {
  number: number;
  /** Metrics of all workers, as Prometheus reads them. */
  allMetrics(): Promise<string>;
}

/** A constant 1 whose labels say what runs, to see versions during an upgrade and to join them with other metrics. */
export function registerBuildInfo(registry: Registry, labels: { version: string; node: string; region: string }): void {
  new Gauge({
    name: 'baobab_build_info',
    help: 'Always 1; the labels are the versions of Baobab and Node, and the region',
    labelNames: ['version', 'node', 'region'] as const,
    registers: [registry],
  }).set(labels, 1);
}

/** Labels are bounded: routes, catalog slugs and statuses, never ids. */
export function createMetrics(worker?: WorkerMetrics) {
  const registry = new Registry();
  if (worker !== undefined) registry.setDefaultLabels({ worker: String(worker.number) });
  collectDefaultMetrics({ register: registry, prefix: 'baobab_' });
  const registers = [registry];
  return {
    registry,
    /** As Prometheus reads them. */
    text: () => (worker === undefined ? registry.metrics() : worker.allMetrics()),
    requests: createRequestMetrics(registry),
    errors: new Counter({
      name: 'baobab_http_errors_total',
      help: 'Requests that failed by error code, also streams that had begun with status 200',
      labelNames: ['route', 'code', 'model'] as const,
      registers,
    }),
    refusedKeys: new Counter({
      name: 'baobab_http_refused_keys_total',
      help: 'Requests without a valid key by error code; delayed: whether the answer was held back',
      labelNames: ['code', 'delayed'] as const,
      registers,
    }),
    requestsInFlight: new Gauge({
      name: 'baobab_http_requests_in_flight',
      help: 'Requests being answered',
      registers,
    }),
  };
}
