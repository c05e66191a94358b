import { expect, it } from 'vitest';
import { latencyBin, percentilesOf } from './latency.ts';

it('gives percentiles to about 3%, and no digits beyond that', () => {
  expect(percentilesOf(new Map())).toBeNull();
  for (const ms of [2, 47, 830, 4_083, 61_234]) {
    const percentiles = percentilesOf(new Map([[latencyBin(ms), 1]]));
    const { p50 = 0, p99 } = percentiles ?? {};
    expect(p99).toBe(p50);
    expect(Math.abs(p50 / ms - 1)).toBeLessThan(0.036);
    expect(String(p50).replace('.', '').replace(/0+$/, '').length).toBeLessThanOrEqual(3);
  }
});
