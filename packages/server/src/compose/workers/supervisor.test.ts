import { expect, it } from 'vitest';
import { createRestartDelay } from './supervisor.ts';

it('doubles the delay up to half a minute while a worker fails at its start, and begins anew after a good minute', () => {
  const delay = createRestartDelay();
  expect(Array.from({ length: 9 }, () => delay.next(10))).toEqual([
    250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000,
  ]);
  expect([delay.next(60_000), delay.next(59_999)]).toEqual([250, 500]);
});
