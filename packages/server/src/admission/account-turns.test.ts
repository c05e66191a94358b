import { describe, expect, it } from 'vitest';
import { createAccountTurns } from './account-turns.ts';

/** A turn passes on with the next turn of the event loop. */
const passed = () => new Promise<void>((resolve) => setImmediate(resolve));

describe('turns of an account', () => {
  it('run a few at a time, in order, and let others pass', async () => {
    const turns = createAccountTurns({ atOnce: 2 });
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
    await passed();
    expect(log).toEqual(['a1', 'a2', 'b1', 'a3']);
    for (const name of ['a2', 'b1', 'a3']) open[name]?.();
    await Promise.all([others[0], others[1], others[3]]);
    await passed();
    open.a4?.();
    expect(await Promise.all(others)).toEqual(['a2', 'a3', 'a4', 'b1']);
  });

  it('are refused above the number that may wait, and given up when the signal fires', async () => {
    const turns = createAccountTurns({ atOnce: 1, waiting: { most: 1, refusal: () => new Error('too many') } });
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const [one, other] = [new AbortController(), new AbortController()];
    let begun = 0;
    const work = async () => {
      begun += 1;
      await held;
    };
    const running = turns.run('a', work, one.signal);
    const waiting = turns.run('a', work, other.signal);
    await expect(turns.run('a', work)).rejects.toThrow('too many');
    other.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'client_cancelled' });
    await expect(turns.run('b', work, other.signal)).rejects.toMatchObject({ code: 'client_cancelled' });
    // Its turn lasts as long as its work.
    one.abort();
    const next = turns.run('a', work);
    await passed();
    expect(begun).toBe(1);
    release();
    await Promise.all([running, next]);
    expect(begun).toBe(2);
  });
});
