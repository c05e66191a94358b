import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { openStore } from '../adapters/store.ts';
import { createTurns } from './background-jobs.ts';

const directory = await mkdtemp(join(tmpdir(), 'baobab-turns-'));
const store = await openStore({ kind: 'sqlite', path: join(directory, 'baobab.sqlite') });
afterAll(async () => {
  await store.close();
  await rm(directory, { recursive: true });
});

it('gives a process every turn although its timer fires early or late', async () => {
  let now = Date.UTC(2026, 10, 17);
  const isMyTurn = createTurns(store, { alone: false }, { now: () => now });
  for (const lateMs of [0, -20, 15, -1, 0, 300, -300]) {
    now += 60_000 + lateMs;
    expect(await isMyTurn('sweep', 60_000)).toBe(true);
  }
});

it('gives one turn in each interval, however many processes ask', async () => {
  let now = Date.UTC(2026, 10, 17);
  const isMyTurn = createTurns(store, { alone: false }, { now: () => now });
  let turns = 0;
  // Ten processes with a minute each, spread over the minute.
  for (let asked = 0; asked < 100; asked += 1) {
    if (await isMyTurn('shared sweep', 60_000)) turns += 1;
    now += 6_000;
  }
  // Ten minutes: at most one more than with exact timers.
  expect(turns).toBeGreaterThanOrEqual(10);
  expect(turns).toBeLessThanOrEqual(12);
});
