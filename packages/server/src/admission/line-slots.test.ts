import { expect, it } from 'vitest';
import { createLineSlots, type LineSlot } from './line-lanes.ts';

/** Lets all promises resolve that can. */
const settled = () => new Promise((resolve) => setImmediate(resolve));
const never = new AbortController().signal;

it('gives a free slot to the account with the fewest, and within it to the batch with the fewest', async () => {
  const slots = createLineSlots();
  slots.setLimit(4);
  const held: [string, LineSlot][] = [];
  const ask = (accountId: string, batchId: string) =>
    slots.take({ accountId, batchId }, never).then((slot) => {
      if (slot !== undefined) held.push([batchId, slot]);
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
  expect(slots.inUse()).toBe(4);
});

it('gives an account a quarter more while the long lines of another have all slots', async () => {
  const slots = createLineSlots();
  slots.setLimit(8);
  const granted: string[] = [];
  const ask = (accountId: string) => {
    void slots.take({ accountId, batchId: `batch of ${accountId}` }, never).then(() => granted.push(accountId));
  };
  for (let index = 0; index < 12; index += 1) ask('slow');
  await settled();
  expect(granted).toEqual(Array.from({ length: 8 }, () => 'slow'));
  for (let index = 0; index < 4; index += 1) ask('other');
  await settled();
  expect(granted.slice(8)).toEqual(['other', 'other']);
  expect(slots.inUse()).toBe(10);
  ask('third');
  await settled();
  expect(slots.inUse()).toBe(10);
});

it('stops waiting when the signal fires, and keeps the limit', async () => {
  const slots = createLineSlots();
  const stop = new AbortController();
  const waiting = slots.take({ accountId: 'a', batchId: 'b' }, stop.signal);
  stop.abort();
  expect(await waiting).toBeUndefined();
  expect(await slots.take({ accountId: 'a', batchId: 'b' }, stop.signal)).toBeUndefined();
  const granted = slots.take({ accountId: 'a', batchId: 'b' }, never);
  slots.setLimit(1);
  const slot = await granted;
  slot?.release();
  slot?.release();
  expect(slots.inUse()).toBe(0);
});
