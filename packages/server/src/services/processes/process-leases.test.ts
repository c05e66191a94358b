import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createProcessLeases, type LeaseHolder } from './process-leases.ts';

const identity = { ownerId: 'me', leaseMs: 15_000, startedAt: 0, alone: true };
const clock = { now: () => Date.now() };

beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
});
afterEach(() => {
  vi.useRealTimers();
});

function setUp({ alone = true, holders }: { alone?: boolean; holders: Record<string, LeaseHolder> }) {
  const logged: object[] = [];
  const logger = { error: (facts: object) => void logged.push(facts), info() {} };
  const leases = createProcessLeases({ identity: { ...identity, alone }, holders, clock, logger });
  return { leases, logged };
}

it('renews every lease three times while it lasts, until it is stopped', async () => {
  const renewed: number[] = [];
  const { leases } = setUp({ holders: { batches: { renewLeases: (until) => void renewed.push(until) } } });
  leases.start();
  await vi.advanceTimersByTimeAsync(15_000);
  leases.stop();
  await vi.advanceTimersByTimeAsync(15_000);
  expect(renewed).toEqual([20_000, 25_000, 30_000]);
});

it('logs a failed renewal and goes on with the others', async () => {
  const renewed: number[] = [];
  const { leases, logged } = setUp({
    holders: {
      broken: { renewLeases: () => Promise.reject(new Error('the store is gone')) },
      batches: { renewLeases: (until) => void renewed.push(until) },
    },
  });
  leases.start();
  await vi.advanceTimersByTimeAsync(5_000);
  leases.stop();
  expect(renewed).toEqual([20_000]);
  expect(logged).toMatchObject([{ leases: 'broken', err: { message: 'the store is gone' } }]);
});

it('ends the leases of other owners only when it is alone', async () => {
  const releaseOthers = vi.fn(async () => {});
  const holders = { batches: { renewLeases() {}, releaseOthers } };
  await setUp({ alone: false, holders }).leases.takeOver();
  expect(releaseOthers).not.toHaveBeenCalled();
  await setUp({ alone: true, holders }).leases.takeOver();
  expect(releaseOthers).toHaveBeenCalledOnce();
});
