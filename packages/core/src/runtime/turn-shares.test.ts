import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { TurnShares } from './turn-shares.ts';

/** Accounts whose pieces take a twentieth of a millisecond, and the order in which they were done. */
function createBed() {
  let time = 10_000;
  const shares = new TurnShares(() => time);
  const done: string[] = [];
  return {
    shares,
    done,
    piece(account: string) {
      return shares.run(account, () => {
        time += 0.05;
        done.push(account);
      });
    },
    pass: (ms: number) => {
      time += ms;
    },
  };
}

describe('a turn of the event loop', () => {
  it('belongs to one account while there is no other', async () => {
    const { piece, done, pass, shares } = createBed();
    piece('other');
    piece('heavy');
    pass(1_001);
    for (let count = 0; count < 100; count += 1) expect(piece('heavy')).toBeUndefined();
    expect(shares.take('heavy')).toBeUndefined();
    expect(shares.take('heavy')).toBeUndefined();
    expect(done).toHaveLength(102);
  });

  it('has a few pieces of an account while others are active, and all of those that do less', async () => {
    const { piece, done } = createBed();
    const heavy = Array.from({ length: 9 }, () => piece('heavy'));
    piece('light');
    expect(done).toEqual(['heavy', 'heavy', 'heavy', 'light']);
    for (let turn = 0; turn < 2; turn += 1) {
      done.length = 0;
      await nextTurn();
      expect(piece('light')).toBeUndefined();
      expect(done).toEqual(['heavy', 'heavy', 'heavy', 'light']);
    }
    await Promise.all(heavy);
  });

  it('has one piece of an account that takes its whole share', async () => {
    const { shares, piece } = createBed();
    piece('light');
    const [first, second, third] = [shares.take('heavy'), shares.take('heavy'), shares.take('heavy')];
    const begun: string[] = [];
    void second?.then(() => begun.push('second'));
    void third?.then(() => begun.push('third'));
    expect(first).toBeUndefined();
    await nextTurn();
    expect(begun).toEqual(['second']);
    await third;
    expect(begun).toEqual(['second', 'third']);
  });

  it('has the next long piece of an account after a rest, and its requests at once', async () => {
    const { shares, piece, done } = createBed();
    piece('light');
    piece('heavy');
    shares.rest('heavy', 5);
    const began = performance.now();
    const next = shares.take('heavy');
    expect(piece('heavy')).toBeUndefined();
    expect(piece('light')).toBeUndefined();
    expect(done).toEqual(['light', 'heavy', 'heavy', 'light']);
    await next;
    expect(performance.now() - began).toBeGreaterThan(13);
  });

  it('needs no rest while there is one account', () => {
    const { shares, piece, pass } = createBed();
    piece('heavy');
    pass(1_001);
    shares.rest('heavy', 50);
    expect(shares.take('heavy')).toBeUndefined();
  });

  it('is free for what waits when the other accounts have gone', async () => {
    const { piece, pass, done } = createBed();
    piece('light');
    const heavy = Array.from({ length: 50 }, () => piece('heavy'));
    pass(2_000);
    await nextTurn();
    await Promise.all(heavy);
    expect(done).toHaveLength(51);
  });

  it('passes on what a piece returns or throws', async () => {
    const { shares, piece } = createBed();
    piece('light');
    for (let count = 0; count < 3; count += 1) piece('heavy');
    const fail = () => {
      throw new Error('broken');
    };
    const [late, broken] = [shares.run('heavy', () => 1), shares.run('heavy', fail)];
    expect(await late).toBe(1);
    await expect(broken).rejects.toThrow('broken');
    expect(shares.run('light', () => 2)).toBe(2);
    expect(() => shares.run('another', fail)).toThrow('broken');
  });
});
