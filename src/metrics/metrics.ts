import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

const LATENCY_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

export type Metrics = ReturnType<typeof createMetrics>;

export interface WorkerMetrics {
  number: number;
  /** Of all workers, as Prometheus reads them. */
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
    requests: new Counter({
      name: 'baobab_http_requests_total',
      help: 'Requests by route, status and model',
      labelNames: ['method', 'route', 'status', 'model'] as const,
      registers,
    }),
    requestSeconds: new Histogram({
      name: 'baobab_http_request_duration_seconds',
      help: 'Time from the head of a request to the end of its answer',
      labelNames: ['method', 'route'] as const,
      buckets: LATENCY_BUCKETS,
      registers,
    }),
    errors: new Counter({
      name: 'baobab_http_errors_total',
      help: 'Requests that failed by error code, also streams that had begun with status 200',
      labelNames: ['route', 'code', 'model'] as const,
      registers,
    }),
    firstTokenSeconds: new Histogram({
      name: 'baobab_first_token_seconds',
      help: 'Time until the first token of an answer',
      labelNames: ['model'] as const,
      buckets: LATENCY_BUCKETS,
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
