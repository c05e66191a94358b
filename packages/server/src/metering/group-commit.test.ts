import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createGroupCommit } from './metering.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'performance'] }));
afterEach(() => void vi.useRealTimers());

function groupCommit(expected?: () => number) {
  const sizes: number[] = [];
  const group = createGroupCommit<number>({
    most: 100,
    atOnce: 2,
    eager: true,
    expected,
    commit: async (items) => void sizes.push(items.length),
  });
  return { ...group, sizes, waiting: () => group.waiting };
}

/** One every so many milliseconds. */
async function steadily(add: (item: number) => void, gapMs: number, count: number): Promise<void> {
  for (let item = 0; item < count; item += 1) {
    add(item);
    await vi.advanceTimersByTimeAsync(gapMs);
  }
}

describe('group commit', () => {
  it('commits slow arrivals at once', async () => {
    const { add, sizes } = groupCommit();
    for (let item = 0; item < 50; item += 1) {
      add(item);
      expect(sizes).toHaveLength(item + 1);
      await vi.advanceTimersByTimeAsync(2);
    }
  });

  it('groups fast arrivals and returns to single commits afterwards', async () => {
    const { add, sizes, waiting } = groupCommit();
    await steadily(add, 0.2, 400);
    expect(sizes.slice(-20).every((size) => size === 3)).toBe(true);
    await vi.advanceTimersByTimeAsync(5);
    expect(waiting()).toBe(0);
    const before = sizes.length;
    await steadily(add, 5, 20);
    expect(sizes.slice(before).reduce((sum, size) => sum + size, 0)).toBe(20);
    expect(sizes.slice(-10)).toEqual(Array.from({ length: 10 }, () => 1));
  });

  it('never waits for more items than can come', async () => {
    let expected = 3;
    const { add, sizes, waiting } = groupCommit(() => expected);
    await steadily(add, 0.2, 400);
    expect(sizes.at(-1)).toBe(3);
    while (waiting() > 0) await vi.advanceTimersByTimeAsync(0.2);
    // One client that sends its next request when it has the last answer.
    expected = 1;
    sizes.length = 0;
    for (let item = 0; item < 100; item += 1) {
      add(item);
      await vi.advanceTimersByTimeAsync(0);
      expect(sizes).toHaveLength(item + 1);
      await vi.advanceTimersByTimeAsync(0.3);
    }
  });

  it('does not keep the last items of a burst waiting', async () => {
    const { add, sizes, waiting } = groupCommit();
    await steadily(add, 0.2, 200);
    while (waiting() > 0) await vi.advanceTimersByTimeAsync(0.2);
    const before = sizes.length;
    add(0);
    expect(waiting()).toBe(1);
    await vi.advanceTimersByTimeAsync(2.5);
    expect(waiting()).toBe(0);
    expect(sizes.slice(before)).toEqual([1]);
  });
});
