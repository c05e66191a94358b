import { expect, it } from 'vitest';
import { goDuration } from './inference-call.ts';

it.each([
  [0, '0s'],
  [-5, '0s'],
  [0.2, '0.001s'],
  [100, '0.1s'],
  [120, '0.12s'],
  [1_000, '1s'],
  [6_500, '6.5s'],
  [59_999, '59.999s'],
  [60_000, '1m0s'],
  [90_000, '1m30s'],
  [3_600_000, '1h0m0s'],
  [7_201_000, '2h0m1s'],
])('writes %d ms as %s', (ms, text) => {
  expect(goDuration(ms)).toBe(text);
});
