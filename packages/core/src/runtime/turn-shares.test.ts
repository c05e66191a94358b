import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { TurnShares } from './turn-shares.ts';

/** Accounts whose pieces take a twentieth of a millisecond, and the order in which they were done. */
function createBed(weights: Record<string, number> = {}) {
  const shareOf = (name: string) => ({ name, weight: weights[name] ?? 1 });
  let time = 10_000;
  const shares = new TurnShares(() => time);
  const done: string[] = [];
  return {
    shares,
    done,
    piece(account: string) {
      return shares.run(shareOf(account), () => {
        time += 0.05;
        done.push(account);
      });
    },
    pass: (ms: number) => {
      time += ms;
    },
  };
}

const [heavyShare, lightShare] = [
  { name: 'heavy', weight: 1 },
  { name: 'light', weight: 1 },
];

describe('a turn of the event loop', () => {
  it('belongs to one account while there is no other', async () => {
    const { piece, done, pass, shares } = createBed();
    piece('other');
    piece('heavy');
    pass(1_001);
    for (let count = 0; count < 100; count += 1) expect(piece('heavy')).toBeUndefined();
    expect(shares.take(heavyShare)).toBeUndefined();
    expect(shares.take(heavyShare)).toBeUndefined();
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

  it('has the work of accounts by their weights, and all of those that do less', async () => {
    const { piece, done } = createBed({ most: 4, half: 2, least: 1 });
    const accounts = ['most', 'half', 'least'];
    const pieces = accounts.flatMap((account) => Array.from({ length: 200 }, () => piece(account)));
    const countOf = (account: string) => done.filter((each) => each === account).length;
    while (countOf('most') < 120) await nextTurn();
    expect(countOf('half')).toBeGreaterThanOrEqual(57);
    expect(countOf('half')).toBeLessThanOrEqual(63);
    expect(countOf('least')).toBeGreaterThanOrEqual(27);
    expect(countOf('least')).toBeLessThanOrEqual(33);
    expect(piece('light')).toBeUndefined();
    await Promise.all(pieces);
  });

  it('belongs to the account with little weight as soon as the one with more waits for nothing', async () => {
    const { piece, done } = createBed({ most: 1_000 });
    piece('most');
    const heavy = Array.from({ length: 30 }, () => piece('heavy'));
    await nextTurn();
    for (let turn = 0; turn < 10; turn += 1) await nextTurn();
    expect(done).toHaveLength(31);
    await Promise.all(heavy);
  });

  it('has one piece of an account that takes its whole share', async () => {
    const { shares, piece } = createBed();
    piece('light');
    const [first, second, third] = [shares.take(heavyShare), shares.take(heavyShare), shares.take(heavyShare)];
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
    shares.rest(heavyShare, 5);
    const began = performance.now();
    const next = shares.take(heavyShare);
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
    shares.rest(heavyShare, 50);
    expect(shares.take(heavyShare)).toBeUndefined();
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
    const [late, broken] = [shares.run(heavyShare, () => 1), shares.run(heavyShare, fail)];
    expect(await late).toBe(1);
    await expect(broken).rejects.toThrow('broken');
    expect(shares.run(lightShare, () => 2)).toBe(2);
    expect(() => shares.run({ name: 'another', weight: 1 }, fail)).toThrow('broken');
  });
});
