import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createProgressMeter } from './progress-meter.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function setUp() {
  const received: number[] = [];
  const clock = { now: () => Date.now() };
  const meter = createProgressMeter(clock, 1_000, ({ receivedBytes }) => received.push(receivedBytes));
  return { meter, received };
}

it('reports a few times a second, and also the last bytes before a pause', () => {
  const { meter, received } = setUp();
  for (let chunk = 0; chunk < 50; chunk += 1) {
    meter.add('a', 10);
    vi.advanceTimersByTime(10);
  }
  vi.advanceTimersByTime(1_000);
  expect(received.length).toBeLessThanOrEqual(7);
  expect(received[0]).toBe(10);
  expect(received.at(-1)).toBe(500);
});

it('reports nothing after its end', () => {
  const { meter, received } = setUp();
  meter.add('a', 10);
  meter.add('a', 10);
  meter[Symbol.dispose]();
  vi.advanceTimersByTime(1_000);
  expect(received).toEqual([10]);
});
