import { expect, it } from 'vitest';
import { createPace } from './pace.ts';
import { createTurns, type Turn } from './turns.ts';

/** Every promise that can resolve by now has. */
const settled = () => new Promise((resolve) => setImmediate(resolve));
const never = new AbortController().signal;

it('gives a free place to the account with the fewest, and within it to the batch with the fewest', async () => {
  const turns = createTurns();
  turns.setLimit(4);
  const held: [string, Turn][] = [];
  const ask = (accountId: string, batchId: string) =>
    turns.take({ accountId, batchId }, never).then((turn) => {
      if (turn !== undefined) held.push([batchId, turn]);
    });
  // The first account takes everything while it is alone.
  for (let index = 0; index < 4; index += 1) await ask('one', 'one-a');
  const waiting = [
    ask('one', 'one-a'),
    ask('one', 'one-b'),
    ask('two', 'two-a'),
    ask('two', 'two-a'),
    ask('two', 'two-b'),
  ];
  const order: string[] = [];
  for (let index = 0; index < waiting.length; index += 1) {
    held.shift()?.[1].release();
    await settled();
    order.push(held.at(-1)?.[0] ?? '');
  }
  await Promise.all(waiting);
  expect(order).toEqual(['two-a', 'two-b', 'one-b', 'one-a', 'two-a']);
  expect(turns.inUse()).toBe(4);
});

it('lets go of whoever is stopped, and holds the limit', async () => {
  const turns = createTurns();
  const stop = new AbortController();
  const waiting = turns.take({ accountId: 'a', batchId: 'b' }, stop.signal);
  stop.abort();
  expect(await waiting).toBeUndefined();
  expect(await turns.take({ accountId: 'a', batchId: 'b' }, stop.signal)).toBeUndefined();
  const granted = turns.take({ accountId: 'a', batchId: 'b' }, never);
  turns.setLimit(1);
  const turn = await granted;
  turn?.release();
  turn?.release();
  expect(turns.inUse()).toBe(0);
});

it('halves the lines at work while people wait, down to one, and comes back in steps', () => {
  const pace = createPace(32);
  const limits = [3, 1, 1, 1, 1, 1].map((requests) => pace.next(requests));
  expect(limits).toEqual([16, 8, 4, 2, 1, 1]);
  expect(Array.from({ length: 9 }, () => pace.next(0))).toEqual([5, 9, 13, 17, 21, 25, 29, 32, 32]);
});
