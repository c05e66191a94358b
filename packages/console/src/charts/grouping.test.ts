import { expect, it } from 'vitest';
import type { UsageBucket } from '../api/types.ts';
import { groupSeries, type Metric } from './grouping.ts';

const start = '2026-11-19T00:00:00Z';
const bucket = (model: string, cost_usd: number, tokens: number) =>
  ({ start, model, cost_usd, requests: 1, prompt_tokens: tokens, completion_tokens: 0 }) as UsageBucket;
const buckets = [
  bucket('acme/free', 0, 609),
  bucket('acme/priced', 0.002, 171),
  ...Array.from({ length: 9 }, (_, index) => bucket(`acme/small-${index}`, 0, index)),
];
const drawn = (metric: Metric) =>
  groupSeries(buckets, { group: 'model', metric, rankBy: 'cost', startsMs: [Date.parse(start)] });

it.each(['cost', 'tokens', 'requests'] as const)('draws all of the %s of models with and without a price', (metric) => {
  const total = buckets.reduce(
    (sum, { cost_usd, requests, prompt_tokens }) => sum + { cost: cost_usd, requests, tokens: prompt_tokens }[metric],
    0,
  );
  expect(drawn(metric).reduce((sum, { values }) => sum + (values[0] ?? 0), 0)).toBeCloseTo(total, 9);
});

it('gives a group the same hue in charts of different metrics', () => {
  const hueOf = (metric: Metric) => drawn(metric).find(({ id }) => id === 'acme/priced')?.hue;
  expect(hueOf('tokens')).toBe(hueOf('cost'));
  expect(drawn('cost').map(({ id }) => id)).toEqual(['acme/priced']);
});
