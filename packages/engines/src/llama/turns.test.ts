import type { Sharing } from '@baobab/core/runtime/work.ts';
import { describe, expect, it } from 'vitest';
import { Turns } from './turns.ts';

function createBed() {
  const turns = new Turns();
  const order: string[] = [];
  /** A request: its pieces, one after the other. */
  const ask = async (accountId: string, pieces: readonly number[], caller: Partial<Sharing> = {}) => {
    for (const work of pieces) {
      await turns.run({ accountId, priority: 'interactive', ...caller }, work, async () => {
        order.push(accountId);
        await undefined;
      });
    }
  };
  return { turns, order, ask };
}

const times = (count: number, work = 10): number[] => Array<number>(count).fill(work);

describe('accounts that take turns', () => {
  it('wait for one piece of another one, however many requests it has', async () => {
    const { order, ask } = createBed();
    const heavy = Array.from({ length: 8 }, () => ask('heavy', times(10)));
    await Promise.all([...heavy, ask('light', times(6))]);
    const light = order.slice(order.indexOf('light'), order.lastIndexOf('light') + 1);
    expect(order.indexOf('light')).toBeLessThanOrEqual(2);
    expect(light.join(' ')).not.toContain('heavy heavy');
    expect(order).toHaveLength(86);
  });

  it('share work, not pieces, by their weights', async () => {
    const { order, ask } = createBed();
    await Promise.all([
      ...Array.from({ length: 3 }, () => ask('long', times(20, 40))),
      ...Array.from({ length: 3 }, () => ask('short', times(40, 10), { weight: 2 })),
    ]);
    const both = order.slice(0, order.lastIndexOf('short'));
    const [long, short] = ['long', 'short'].map((account) => both.filter((each) => each === account).length);
    expect((short ?? 0) / (long ?? 1)).toBeCloseTo(8, -0.3);
  });

  it('go on after a piece that failed', async () => {
    const { turns, order, ask } = createBed();
    const broken = turns.run({ accountId: 'one', priority: 'interactive' }, 1, async () => {
      throw new Error('no memory');
    });
    await Promise.all([expect(broken).rejects.toThrow('no memory'), ask('two', [1, 1])]);
    expect(order).toEqual(['two', 'two']);
  });
});
