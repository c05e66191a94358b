import { expect, it } from 'vitest';
import { noMetrics } from '../host/metrics.ts';
import { withTokenRates } from './token-rates.ts';

it('averages the tokens of the last ten seconds', () => {
  let now = 1_000_000;
  const { metrics, rates } = withTokenRates(noMetrics, () => now);
  expect(rates.of('acme/one@1')).toEqual({ input: 0, output: 0 });
  metrics.tokens('acme/one@1', { input: 50, output: 10 });
  metrics.tokens('acme/one@1', { input: 50, output: 10 });
  now += 9_000;
  metrics.tokens('acme/one@1', { input: 0, output: 10 });
  expect(rates.of('acme/one@1')).toEqual({ input: 10, output: 3 });
  now += 5_000;
  expect(rates.of('acme/one@1')).toEqual({ input: 0, output: 1 });
  now += 5_000;
  expect(rates.of('acme/one@1')).toEqual({ input: 0, output: 0 });
});
