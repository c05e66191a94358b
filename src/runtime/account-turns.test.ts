import { describe, expect, it } from 'vitest';
import { createAccountTurns } from './account-turns.ts';

describe('turns of an account', () => {
  it('run a few at a time, in order, and let others pass', async () => {
    const turns = createAccountTurns(2);
    const log: string[] = [];
    const open: Record<string, () => void> = {};
    const start = (account: string, name: string) =>
      turns.run(account, async () => {
        log.push(name);
        await new Promise<void>((resolve) => {
          open[name] = resolve;
        });
        if (name === 'a1') throw new Error('failed');
        return name;
      });
    const first = start('a', 'a1');
    const others = [start('a', 'a2'), start('a', 'a3'), start('a', 'a4'), start('b', 'b1')];
    expect(log).toEqual(['a1', 'a2', 'b1']);
    open.a1?.();
    await expect(first).rejects.toThrow('failed');
    expect(log).toEqual(['a1', 'a2', 'b1', 'a3']);
    for (const name of ['a2', 'b1', 'a3']) open[name]?.();
    await Promise.all([others[0], others[1], others[3]]);
    open.a4?.();
    expect(await Promise.all(others)).toEqual(['a2', 'a3', 'a4', 'b1']);
  });
});
