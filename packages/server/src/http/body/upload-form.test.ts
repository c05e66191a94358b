import { setImmediate as nextTurn } from 'node:timers/promises';
import { turnShares } from '@baobab/core/runtime/turn-shares.ts';
import { expect, it } from 'vitest';
import { collecting } from './upload-form.ts';

it('takes one chunk of the uploads of an account in a turn of the event loop while other accounts are active', async () => {
  async function* chunks() {
    for (let count = 0; count < 5; count += 1) yield new Uint8Array(65_536);
  }
  let taken = 0;
  const upload = async () => {
    for await (const chunk of collecting(chunks(), { name: 'heavy', weight: 1 })) taken += chunk.length / 65_536;
  };
  turnShares.take({ name: 'light', weight: 1 });
  const uploads = [upload(), upload()];
  const most: number[] = [];
  for (let before = 0; taken < 10; before = taken) {
    await nextTurn();
    most.push(taken - before);
  }
  await Promise.all(uploads);
  expect(Math.max(...most)).toBeLessThanOrEqual(2);
  expect(most.length).toBeGreaterThan(4);
});
