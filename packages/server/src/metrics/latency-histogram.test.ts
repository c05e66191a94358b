import { Histogram, Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { LatencyHistogram } from './latency-histogram.ts';
import { mergeMetrics } from './worker-metrics.ts';

const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const OBSERVED = [
  [{ method: 'GET', route: '/a' }, [0, 0.001, 0.0011, 299, 300, 301]],
  [{ method: 'POST', route: '/"b"' }, [0.02, 7, 7]],
] as const;

it('gives the text of the histogram of prom-client, for one process and for several', async () => {
  const [ours, theirs] = [new Registry(), new Registry()];
  const name = 'some_seconds';
  const latencies = new LatencyHistogram({ name, help: 'Some', registry: ours });
  const other = new Histogram({
    name,
    help: 'Some',
    labelNames: ['method', 'route'],
    buckets: BUCKETS,
    registers: [theirs],
  });
  latencies.series({ method: 'PUT', route: '/unused' });
  for (const [labels, values] of OBSERVED) {
    for (const value of values) {
      latencies.series({ ...labels }).observe(value);
      other.observe(labels, value);
    }
  }
  expect(await ours.metrics()).toBe(await theirs.metrics());
  const merged = (registry: Registry) =>
    Promise.all([registry.getMetricsAsJSON(), registry.getMetricsAsJSON()]).then(mergeMetrics);
  expect(await merged(ours)).toBe(await merged(theirs));
});
