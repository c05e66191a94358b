import { Counter, type Registry } from 'prom-client';
import { LatencyHistogram, type LatencySeries } from './latency-histogram.ts';

export interface EndedRequest {
  method: string;
  route: string;
  status: number;
  /** Empty without one. */
  model: string;
  seconds: number;
}

export interface RequestMetrics {
  ended(request: EndedRequest): void;
  firstToken(model: string, seconds: number): void;
}

interface Series {
  method: string;
  status: number;
  model: string;
  count: number;
  latencies: LatencySeries;
}

/** Counts and latencies of requests. Kept here and written out on collection, as those of the ledger. */
export function createRequestMetrics(registry: Registry): RequestMetrics {
  /** By route. */
  const known = new Map<string, Series[]>();
  const firstTokens = new Map<string, LatencySeries>();
  new Counter({
    name: 'baobab_http_requests_total',
    help: 'Requests by route, status and model',
    labelNames: ['method', 'route', 'status', 'model'] as const,
    registers: [registry],
    collect() {
      this.reset();
      for (const [route, list] of known) {
        for (const { method, status, model, count } of list) {
          this.inc({ method, route, status: String(status), model }, count);
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
    let list = known.get(route);
    if (list === undefined) {
      list = [];
      known.set(route, list);
    }
    const found = list.find((each) => each.model === model && each.status === status && each.method === method);
    if (found !== undefined) return found;
    const added = { method, status, model, count: 0, latencies: latencies.series({ method, route }) };
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
