import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AdmissionDemand } from '../../packages/core/src/ports/counters.ts';
import { parseRedisAddress, type RedisAddress } from '../../packages/server/src/adapters/counters/redis/address.ts';
import { connectRedis } from '../../packages/server/src/adapters/counters/redis/connection.ts';
import { HeldAdmission } from '../../packages/server/src/adapters/counters/redis/held-admission.ts';
import {
  CountersLostError,
  createSharedCounters,
  type SharedCounters,
} from '../../packages/server/src/adapters/counters/redis/shared-counters.ts';
import { ownRedisMissing, type RedisServer, startRedis } from '../fixtures/redis-server.ts';

const LEASE_MS = 15_000;
const NONE = { amount: 0, buckets: [] };
const possessions = (...admissions: HeldAdmission[]) => ({ admissions, budgets: [], buckets: [] });

const demand = (id: string, owner: string): AdmissionDemand => ({
  id,
  owner,
  now: Date.now(),
  leaseMs: LEASE_MS,
  requests: NONE,
  tokens: NONE,
  concurrency: [{ id: 'k', limit: 1 }],
  budgets: [],
  chargeable: [],
});

describe.skipIf(ownRedisMissing !== undefined)('what a process puts into Redis after an outage', () => {
  let redis: RedisServer;
  const opened: SharedCounters[] = [];
  beforeEach(async () => {
    redis = await startRedis();
  });
  afterEach(async () => {
    for (const { connection } of opened.splice(0)) connection.close();
    await redis.stop();
  });

  async function join(owner: string, earlierOwners: string[] = []): Promise<SharedCounters> {
    const address = parseRedisAddress(redis.url) as RedisAddress;
    const connection = await connectRedis({ address, timeoutMs: 20_000, onLost() {} });
    const counters = createSharedCounters({ connection, namespace: 'test', time: 'server' });
    opened.push(counters);
    await counters.join({ owner, leaseMs: LEASE_MS, earlierOwners, settleMs: 0, now: Date.now() });
    return counters;
  }

  const isFree = async (counters: SharedCounters, owner: string) =>
    (await counters.admit(owner, demand('probe', owner))).kind === 'admitted';

  it('is given back by a settlement that follows it, when Redis knows only the script of the settlement', async () => {
    const counters = await join('a#1');
    const held = new HeldAdmission(demand('one', 'a'), 1);
    // Another process has used it since Redis started.
    await counters.settle('a#1', new HeldAdmission(demand('unknown', 'a'), 1), { now: Date.now(), tokens: 0 });
    await Promise.all([
      counters.restore('a#1', possessions(held), Date.now()),
      counters.settle('a#1', held, { now: Date.now(), tokens: 0 }),
    ]);
    expect(await isFree(counters, 'a#1')).toBe(true);
  });

  it('is refused when it arrives after the process has joined under another name', async () => {
    const before = await join('a#1');
    const after = await join('a#2', ['a#1']);
    const held = new HeldAdmission(demand('one', 'a'), 1);
    await expect(before.restore('a#1', possessions(held), Date.now())).rejects.toThrow(CountersLostError);
    expect(await isFree(after, 'a#2')).toBe(true);
  });
});
