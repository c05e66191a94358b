import type { BatchLane } from '@baobab/core/engine/engine.ts';
import { expect, it } from 'vitest';
import { createConcurrencyControl, createLineLanes } from './line-lanes.ts';

const never = new AbortController().signal;
/** Lets all promises resolve that can. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

function fakeLane(name = 'local', recoveryMs = 400) {
  const state = { most: Number.POSITIVE_INFINITY, mustYield: false };
  const lane: BatchLane = {
    name,
    recoveryMs,
    most: (wanted) => Math.min(wanted, state.most),
    mustYield: () => state.mustYield,
  };
  return { state, lane };
}

it('halves the limit while it must yield, down to one, and raises it in steps', () => {
  const { state, lane } = fakeLane();
  const control = createConcurrencyControl({ lane, concurrency: 32, everyMs: 50 });
  expect(control.adjust(false)).toBe(32);
  state.mustYield = true;
  expect(Array.from({ length: 6 }, () => control.adjust(false))).toEqual([16, 8, 4, 2, 1, 1]);
  state.mustYield = false;
  expect(Array.from({ length: 9 }, () => control.adjust(false))).toEqual([5, 9, 13, 17, 21, 25, 29, 32, 32]);
  expect([control.adjust(true), control.adjust(true)]).toEqual([16, 8]);
});

it('begins with one line where interactive requests are', () => {
  const { state, lane } = fakeLane();
  state.mustYield = true;
  expect(createConcurrencyControl({ lane, concurrency: 32, everyMs: 50 }).adjust(false)).toBe(1);
});

it('follows the most that a lane allows, and recovers as slowly as it wants', () => {
  const { state, lane } = fakeLane('acme/one@1', 8_000);
  const control = createConcurrencyControl({ lane, concurrency: 32, everyMs: 50 });
  state.most = 10;
  expect(control.adjust(false)).toBe(8);
  state.most = 40;
  expect(Array.from({ length: 10 }, () => control.adjust(false)).at(-1)).toBe(9);
});

it('gives each lane slots of its own', async () => {
  const [here, elsewhere] = [fakeLane(), fakeLane('acme/one@1')];
  const lanes = createLineLanes({ concurrency: 4, isOverloaded: () => false, adjustMs: 50 });
  here.state.mustYield = true;
  const line = { accountId: 'a', batchId: 'b' };
  const taken: string[] = [];
  const ask = ({ lane }: typeof here) => lanes.take(lane, line, never).then(() => taken.push(lane.name));
  for (let index = 0; index < 6; index += 1) void ask(here);
  for (let index = 0; index < 6; index += 1) void ask(elsewhere);
  await settled();
  expect(taken.filter((name) => name === 'local')).toHaveLength(1);
  expect(taken.filter((name) => name === 'acme/one@1')).toHaveLength(4);
  here.state.mustYield = false;
  for (let turn = 0; turn < 8; turn += 1) lanes.adjust();
  await settled();
  expect(taken.filter((name) => name === 'local')).toHaveLength(4);
});

it('leaves slots in a lane to the lines of an account that finds all slots taken', async () => {
  const { state, lane } = fakeLane('acme/one@1');
  state.most = 12;
  const lanes = createLineLanes({ concurrency: 32, isOverloaded: () => false, adjustMs: 50 });
  const taken: string[] = [];
  const ask = (accountId: string) => {
    void lanes.take(lane, { accountId, batchId: `batch of ${accountId}` }, never).then(() => taken.push(accountId));
  };
  for (let index = 0; index < 40; index += 1) ask('slow');
  await settled();
  expect(taken).toHaveLength(10);
  for (let index = 0; index < 4; index += 1) ask('other');
  await settled();
  expect(taken.slice(10)).toEqual(['other', 'other']);
});

it.each([1, 2, 3, 5, 7, 16, 17, 32, 33])('has %s slots where there is room for them', (concurrency) => {
  const { lane } = fakeLane();
  expect(createConcurrencyControl({ lane, concurrency, everyMs: 50 }).adjust(false)).toBe(concurrency);
});

it('recovers in steps also while its lines wait to be tried again', async () => {
  const { state, lane } = fakeLane('acme/one@1', 8_000);
  const lanes = createLineLanes({ concurrency: 8, isOverloaded: () => false, adjustMs: 50 });
  const take = () => lanes.take(lane, { accountId: 'a', batchId: 'b' }, never);
  const first = await take();
  state.mustYield = true;
  for (let turn = 0; turn < 4; turn += 1) lanes.adjust();
  first?.release();
  state.mustYield = false;
  lanes.adjust();
  let taken = 0;
  for (let index = 0; index < 8; index += 1) void take().then(() => (taken += 1));
  await settled();
  expect(taken).toBe(1);
  for (let turn = 0; turn < 160; turn += 1) lanes.adjust();
  await settled();
  expect(taken).toBe(8);
});

it('asks for the load of the process only when it adjusts the lanes', async () => {
  let asked = 0;
  const isOverloaded = () => {
    asked += 1;
    return true;
  };
  const lanes = createLineLanes({ concurrency: 8, isOverloaded, adjustMs: 50 });
  const line = { accountId: 'a', batchId: 'b' };
  for (const name of ['one', 'two', 'three']) await lanes.take(fakeLane(name).lane, line, never);
  expect(asked).toBe(0);
  lanes.adjust();
  expect(asked).toBe(1);
  const late = fakeLane('four').lane;
  let taken = 0;
  for (let index = 0; index < 4; index += 1) void lanes.take(late, line, never).then(() => (taken += 1));
  await settled();
  expect(taken).toBe(1);
});
