import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Deadlines, NOT_WATCHED } from './deadlines.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

class Call {
  index = NOT_WATCHED;
  dueAt: number;
  expiredAt: number | undefined;
  readonly #deadlines: Deadlines;

  constructor(deadlines: Deadlines, afterMs: number) {
    this.#deadlines = deadlines;
    this.dueAt = performance.now() + afterMs;
    deadlines.watch(this);
  }

  expire(): void {
    this.expiredAt = performance.now();
    this.#deadlines.forget(this);
  }
}

const setUp = () => {
  const deadlines = new Deadlines();
  return { deadlines, start: (afterMs: number) => new Call(deadlines, afterMs) };
};

it('ends what is due, and nothing that has ended or has time left', () => {
  const { deadlines, start } = setUp();
  const [late, ended, other, last] = [start(100), start(100), start(100), start(300)];
  deadlines.forget(ended);
  deadlines.forget(ended);
  vi.advanceTimersByTime(99);
  expect(late.expiredAt).toBeUndefined();
  vi.advanceTimersByTime(1);
  expect([late, ended, other, last].map(({ expiredAt }) => expiredAt !== undefined)).toEqual([
    true,
    false,
    true,
    false,
  ]);
  vi.advanceTimersByTime(200);
  expect(last.expiredAt).toBeDefined();
  expect(vi.getTimerCount()).toBe(0);
});

it('has one timer, however many start and end', () => {
  const { deadlines, start } = setUp();
  for (let round = 0; round < 50; round += 1) {
    deadlines.forget(start(1_000));
    start(60_000);
    vi.advanceTimersByTime(1);
    expect(vi.getTimerCount()).toBe(1);
  }
});

it('notices a time that comes nearer, and one that moves away', () => {
  const { deadlines, start } = setUp();
  const call = start(1_000);
  const begun = performance.now();
  call.dueAt = begun + 50;
  deadlines.watch(call);
  const moved = start(50);
  moved.dueAt = begun + 5_000;
  vi.advanceTimersByTime(50);
  expect(call.expiredAt).toBe(begun + 50);
  vi.advanceTimersByTime(4_000);
  expect(moved.expiredAt).toBeUndefined();
  vi.advanceTimersByTime(1_000);
  expect(moved.expiredAt).toBe(begun + 5_000);
});

it('ends many that are due at nearly the same time together, a few milliseconds late at most', () => {
  const { start } = setUp();
  const calls = Array.from({ length: 30 }, (_, index) => start(100 + index));
  vi.advanceTimersByTime(150);
  for (const { dueAt, expiredAt = Number.POSITIVE_INFINITY } of calls)
    expect(expiredAt - dueAt).toBeLessThanOrEqual(11);
});
