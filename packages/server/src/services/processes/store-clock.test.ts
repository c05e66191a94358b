import { expect, it } from 'vitest';
import { openStoreClock } from './store-clock.ts';

const STORE = Date.UTC(2026, 10, 19);

/** A machine whose clock is wrong, and a store that answers after some time. */
async function setUp({ aheadMs = 0, answerMs = 0 } = {}) {
  let passedMs = 0;
  const set = { aheadMs };
  const clock = await openStoreClock({
    async time() {
      passedMs += answerMs / 2;
      const now = STORE + passedMs;
      passedMs += answerMs / 2;
      return now;
    },
    machine: { now: () => STORE + passedMs + set.aheadMs },
    steady: { now: () => 777_000 + passedMs },
  });
  const pass = (ms: number) => {
    passedMs += ms;
  };
  return { clock, set, pass, storeTime: () => STORE + passedMs };
}

it.each([0, 90_000, -90_000])('has the time of the store when the machine is %i ms ahead', async (aheadMs) => {
  const { clock, pass, storeTime } = await setUp({ aheadMs, answerMs: 40 });
  expect(clock.now()).toBe(storeTime());
  pass(30_000);
  expect(clock.now()).toBe(storeTime());
  expect(clock.machineAheadMs()).toBe(aheadMs);
});

it('names a machine whose clock is more than 5 s off', async () => {
  expect((await setUp({ aheadMs: 5_000 })).clock.problem()).toBeUndefined();
  expect((await setUp({ aheadMs: 90_000 })).clock.problem()).toBe(
    'the clock of this machine is 90 s ahead of that of the database, whose time is used',
  );
  expect((await setUp({ aheadMs: -3_600_000 })).clock.problem()).toContain('3600 s behind that of the database');
});

it('is not sure after the clock of the machine was set, until it has asked', async () => {
  const { clock, set, storeTime } = await setUp();
  expect(clock.isSure()).toBe(true);
  set.aheadMs = 3_600_000;
  expect(clock.isSure()).toBe(false);
  expect(clock.now()).toBe(storeTime());
  await clock.sync();
  expect(clock.isSure()).toBe(true);
});
