import { COUNTED_AS_FAILED } from '@baobab/core/domain/attempts.ts';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { UpstreamMetrics } from '../upstreams/routing/upstream.ts';
import { LatencyHistogram } from './latency-histogram.ts';

type Recorder = ReturnType<UpstreamMetrics['addUpstream']>;
type Outcome = Parameters<Recorder['finished']>[0];
type Labels = Parameters<UpstreamMetrics['addUpstream']>[0];
type Health = ReturnType<Parameters<UpstreamMetrics['addUpstream']>[1]>;

interface Upstream {
  labels: Labels;
  health(): Health;
  outcomes: Map<Outcome, number>;
  retries: number;
  overcounts: number;
}

const BREAKER_STATES = ['closed', 'half-open', 'open'] as const;

function outcomeLabel(outcome: Outcome): 'ok' | 'rejected' | 'failed' | 'cancelled' {
  if (outcome === 'ok' || outcome === 'cancelled') return outcome;
  return COUNTED_AS_FAILED.includes(outcome) ? 'failed' : 'rejected';
}

/** Upstreams as Prometheus metrics. Counts are kept here and written out on collection, so that requests stay cheap. */
export function createUpstreamMetrics(registry: Registry): UpstreamMetrics {
  const upstreams = new Set<Upstream>();
  const queues = new Map<string, () => number>();
  const registers = [registry];
  const labelNames = ['model', 'upstream'] as const;

  const seconds = new LatencyHistogram({
    name: 'baobab_upstream_request_duration_seconds',
    help: 'Time from sending a request to an upstream to the end of its answer',
    registry,
  });
  new Counter({
    name: 'baobab_upstream_requests_total',
    help: 'Requests sent to upstreams by outcome: ok, rejected (by the upstream), failed, cancelled',
    labelNames: [...labelNames, 'outcome'] as const,
    registers,
    collect() {
      this.reset();
      for (const { labels, outcomes } of upstreams) {
        for (const [outcome, count] of outcomes) this.inc({ ...labels, outcome: outcomeLabel(outcome) }, count);
      }
    },
  });
  new Counter({
    name: 'baobab_upstream_failures_total',
    help: `Failed requests to upstreams by kind: ${COUNTED_AS_FAILED.join(', ')}`,
    labelNames: [...labelNames, 'kind'] as const,
    registers,
    collect() {
      this.reset();
      for (const { labels, outcomes } of upstreams) {
        for (const kind of COUNTED_AS_FAILED) this.inc({ ...labels, kind }, outcomes.get(kind) ?? 0);
      }
    },
  });
  new Counter({
    name: 'baobab_upstream_retries_total',
    help: 'Requests sent to an upstream because an earlier attempt had failed',
    labelNames,
    registers,
    collect() {
      this.reset();
      for (const { labels, retries } of upstreams) this.inc(labels, retries);
    },
  });
  new Counter({
    name: 'baobab_upstream_overcounts_total',
    help: 'Answers with more tokens than the request and the answer can have; what is too much is not billed',
    labelNames,
    registers,
    collect() {
      this.reset();
      for (const { labels, overcounts } of upstreams) this.inc(labels, overcounts);
    },
  });
  new Gauge({
    name: 'baobab_upstream_healthy',
    help: '1 if an upstream takes requests, 0 if its health check fails or its circuit breaker is open',
    labelNames,
    registers,
    collect() {
      this.reset();
      for (const { labels, health } of upstreams) this.set(labels, health().healthy ? 1 : 0);
    },
  });
  new Gauge({
    name: 'baobab_upstream_misconfigured',
    help: '1 if an upstream does not list the model under the configured name, or was not started for its requests',
    labelNames,
    registers,
    collect() {
      this.reset();
      for (const { labels, health } of upstreams) this.set(labels, health().misconfigured ? 1 : 0);
    },
  });
  new Gauge({
    name: 'baobab_upstream_breaker_state',
    help: '1 for the current state of the circuit breaker: closed, half-open or open',
    labelNames: [...labelNames, 'state'] as const,
    registers,
    collect() {
      this.reset();
      for (const { labels, health } of upstreams) {
        const { breaker } = health();
        for (const state of BREAKER_STATES) this.set({ ...labels, state }, state === breaker ? 1 : 0);
      }
    },
  });
  new Gauge({
    name: 'baobab_upstream_in_flight',
    help: 'Requests running at an upstream',
    labelNames,
    registers,
    collect() {
      this.reset();
      for (const { labels, health } of upstreams) this.set(labels, health().inFlight);
    },
  });
  new Gauge({
    name: 'baobab_upstream_queue_depth',
    help: 'Requests waiting because all upstreams of a model are full',
    labelNames: ['model'] as const,
    registers,
    collect() {
      for (const [model, waiting] of queues) this.set({ model }, waiting());
    },
  });

  return {
    addUpstream(labels, health) {
      const upstream: Upstream = { labels, health, outcomes: new Map([['ok', 0]]), retries: 0, overcounts: 0 };
      upstreams.add(upstream);
      const latency = seconds.series({ ...labels });
      return {
        finished(outcome, elapsed) {
          upstream.outcomes.set(outcome, (upstream.outcomes.get(outcome) ?? 0) + 1);
          latency.observe(elapsed);
        },
        retried() {
          upstream.retries += 1;
        },
        overcounted() {
          upstream.overcounts += 1;
        },
        removed() {
          upstreams.delete(upstream);
        },
      };
    },
    addQueue(model, waiting) {
      queues.set(model, waiting);
    },
  };
}
