import { createTimeSlice } from '@baobab/core/runtime/time-slices.ts';
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { LatencyHistogram, type LatencySeries } from './latency-histogram.ts';

export type Metrics = ReturnType<typeof createMetrics>;

export interface WorkerMetrics {
  number: number;
  /** Metrics of all workers, as Prometheus reads them. */
  allMetrics(): Promise<string>;
}

/** A constant 1 whose labels say what runs, to see versions during an upgrade and to join them with other metrics. */
export function registerBuildInfo(
  registry: Registry,
  labels: { version: string; commit: string; node: string; region: string },
): void {
  new Gauge({
    name: 'baobab_build_info',
    help: 'Always 1; the labels are the version and commit of Baobab, the version of Node, and the region',
    labelNames: ['version', 'commit', 'node', 'region'] as const,
    registers: [registry],
  }).set(labels, 1);
}

/** Labels are bounded: routes, catalog slugs and statuses, never ids. */
export function createMetrics(worker?: WorkerMetrics) {
  const registry = new Registry();
  if (worker !== undefined) registry.setDefaultLabels({ worker: String(worker.number) });
  collectDefaultMetrics({ register: registry, prefix: 'baobab_' });
  // Gauges with the name of a counter, which repeat others without their types.
  for (const name of ['handles', 'requests', 'resources']) {
    registry.removeSingleMetric(`baobab_nodejs_active_${name}_total`);
  }
  const registers = [registry];
  return {
    registry,
    /** As Prometheus reads them. */
    text: () => (worker === undefined ? textOf(registry) : worker.allMetrics()),
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

/** With a thousand upstreams, the text of all metrics at once would hold the event loop for a tenth of a second. */
async function textOf(registry: Registry): Promise<string> {
  const slice = createTimeSlice();
  const metrics: string[] = [];
  for (const { name } of registry.getMetricsAsArray()) {
    metrics.push(await registry.getSingleMetricAsString(name));
    if (slice.isOver()) await slice.next();
  }
  return `${metrics.join('\n\n')}\n`;
}

interface EndedRequest {
  method: string;
  route: string;
  status: number;
  /** Empty without one. */
  model: string;
  seconds: number;
}

interface RequestMetrics {
  ended(request: EndedRequest): void;
  firstToken(model: string, seconds: number): void;
}

interface Series {
  method: string;
  status: number;
  count: number;
  latencies: LatencySeries;
}

/** Counts and latencies of requests. Kept here and written out on collection, as those of the ledger. */
export function createRequestMetrics(registry: Registry): RequestMetrics {
  /** By route and model. */
  const known = new Map<string, Map<string, Series[]>>();
  const firstTokens = new Map<string, LatencySeries>();
  new Counter({
    name: 'baobab_http_requests_total',
    help: 'Requests by route, status and model',
    labelNames: ['method', 'route', 'status', 'model'] as const,
    registers: [registry],
    collect() {
      this.reset();
      for (const [route, models] of known) {
        for (const [model, list] of models) {
          for (const { method, status, count } of list) {
            this.inc({ method, route, status: String(status), model }, count);
          }
        }
      }
    },
  });
  const latencies = new LatencyHistogram({
    name: 'baobab_http_request_duration_seconds',
    help: 'Time from the head of a request to the end of its answer',
    registry,
  });
  const firstTokenLatencies = new LatencyHistogram({
    name: 'baobab_first_token_seconds',
    help: 'Time until the first token of an answer',
    registry,
  });

  function seriesOf({ method, route, status, model }: EndedRequest): Series {
    let models = known.get(route);
    if (models === undefined) {
      models = new Map();
      known.set(route, models);
    }
    let list = models.get(model);
    if (list === undefined) {
      list = [];
      models.set(model, list);
    }
    const found = list.find((each) => each.status === status && each.method === method);
    if (found !== undefined) return found;
    const added = { method, status, count: 0, latencies: latencies.series({ method, route }) };
    list.push(added);
    return added;
  }

  return {
    ended(request) {
      const series = seriesOf(request);
      series.count += 1;
      series.latencies.observe(request.seconds);
    },
    firstToken(model, seconds) {
      let series = firstTokens.get(model);
      if (series === undefined) {
        series = firstTokenLatencies.series({ model });
        firstTokens.set(model, series);
      }
      series.observe(seconds);
    },
  };
}
