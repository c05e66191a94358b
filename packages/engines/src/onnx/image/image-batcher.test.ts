import type { Priority } from '@baobab/core/engine/engine.ts';
import { describe, expect, it } from 'vitest';
import { createImageBatcher } from './image-batcher.ts';

function batcherOf(most = 4, now = () => 0) {
  const runs: number[][] = [];
  let decoding = 0;
  let mostDecoding = 0;
  const batcher = createImageBatcher({
    most,
    now,
    async run(images) {
      runs.push(images.map(([value = 0]) => value));
      if (images.some(([value]) => value === 13)) throw new Error('the runtime failed');
      return images.map(([value = 0]) => Float32Array.of(value * 10));
    },
  });

  async function embed(
    values: readonly number[],
    { priority = 'interactive' as Priority, accountId = 'one', weight = 1, signal = new AbortController().signal } = {},
  ) {
    const vectors: (number | undefined)[] = [];
    await batcher.submit({
      count: values.length,
      async decode(index) {
        decoding += 1;
        mostDecoding = Math.max(mostDecoding, decoding);
        await undefined;
        decoding -= 1;
        const value = values[index] ?? 0;
        if (value < 0) throw new Error('damaged');
        return Float32Array.of(value);
      },
      context: { accountId, priority, weight, signal },
      onVector(index, [value]) {
        vectors[index] = value;
      },
    });
    return vectors;
  }
  return { runs, embed, mostDecoding: () => mostDecoding };
}

describe('images', () => {
  it('of several requests run together, in batches that are not too large', async () => {
    const { runs, embed, mostDecoding } = batcherOf();
    expect(await Promise.all([embed([1, 2, 3]), embed([4, 5, 6])])).toEqual([
      [10, 20, 30],
      [40, 50, 60],
    ]);
    expect(runs).toEqual([
      [1, 2, 3, 4],
      [5, 6],
    ]);
    expect(mostDecoding()).toBe(1);
  });

  it('of small requests pass those of large ones, but not for ever', async () => {
    const { runs, embed } = batcherOf(1);
    const large = embed([1, 2, 3]);
    await Promise.all([large, ...[11, 12, 14, 15].map((value) => embed([value]))]);
    expect(runs.flat()).toEqual([11, 12, 14, 1, 15, 2, 3]);
  });

  it('of batches wait for interactive ones', async () => {
    const { runs, embed } = batcherOf(2);
    await Promise.all([embed([1], { priority: 'batch' }), embed([2, 3, 4, 5])]);
    expect(runs.flat()).toEqual([2, 3, 4, 5, 1]);
  });

  it('of an account wait for one of another account, by their weights, and run together again a second later', async () => {
    let time = 0;
    const { runs, embed } = batcherOf(4, () => time);
    const numbers = (from: number, count: number) => Array.from({ length: count }, (_, index) => from + index);
    const heavy = [100, 200, 300].map((from) => embed(numbers(from, 9), { accountId: 'heavy' }));
    await Promise.all([...heavy, embed([1, 2, 3, 4, 5, 6], { accountId: 'light', weight: 2 })]);
    expect(runs.every(({ length }) => length === 1)).toBe(true);
    const waits = runs
      .flat()
      .map((value) => (value < 100 ? 'l' : 'h'))
      .join('');
    expect(waits.slice(0, 9)).toMatch(/^h?(?:l?lh)+/);
    time = 1_001;
    runs.length = 0;
    await embed(numbers(100, 8), { accountId: 'heavy' });
    expect(runs.map(({ length }) => length)).toEqual([4, 4]);
  });

  it('that are damaged fail their own request only, and the rest of it is dropped', async () => {
    const { runs, embed } = batcherOf();
    const [damaged, other] = await Promise.allSettled([embed([1, -1, 3, 4, 5, 6]), embed([7, 8])]);
    expect(damaged).toMatchObject({ status: 'rejected', reason: { message: 'damaged' } });
    expect(other).toEqual({ status: 'fulfilled', value: [70, 80] });
    expect(runs).toEqual([[7, 8]]);
  });

  it('after a failed run are computed', async () => {
    const { embed } = batcherOf();
    await expect(embed([13])).rejects.toThrow('the runtime failed');
    expect(await embed([1])).toEqual([10]);
  });

  it('of cancelled requests are not decoded', async () => {
    const { runs, embed, mostDecoding } = batcherOf();
    const abort = new AbortController();
    const { signal } = abort;
    const waiting = embed([1], { signal });
    abort.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'client_cancelled' });
    await expect(embed([2], { signal })).rejects.toMatchObject({ code: 'client_cancelled' });
    expect([runs, mostDecoding()]).toEqual([[], 0]);
  });
});
