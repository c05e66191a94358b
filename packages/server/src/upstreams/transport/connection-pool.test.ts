import { describe, expect, it } from 'vitest';
import { KeepTime } from './connection-pool.ts';

describe('the time that idle connections are kept', () => {
  it.each([
    [75_000, 4_000],
    [5_000, 4_000],
    [2_000, 1_000],
    [1_000, 500],
    [10, 4_000],
  ])('is, after the server has closed one of %d ms, %d ms', (idleMs, keptMs) => {
    const time = new KeepTime();
    expect(time.longestMs(100)).toBe(30_000);
    time.learn(idleMs, 100);
    expect(time.longestMs(100)).toBe(keptMs);
  });

  it('is that of the shortest one, and grows again if no more are closed', () => {
    const time = new KeepTime();
    time.learn(2_000, 0);
    time.learn(3_500, 200_000);
    time.learn(10, 200_000);
    expect(time.longestMs(499_999)).toBe(1_000);
    expect(time.longestMs(500_000)).toBe(4_000);
    time.learn(3_500, 500_000);
    expect(time.longestMs(500_000)).toBe(2_500);
  });
});
