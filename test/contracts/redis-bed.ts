import { createClient } from '@redis/client';
import { type ExpectStatic, expect } from 'vitest';
import type { AdmissionDemand, AdmissionTicket } from '../../packages/core/src/ports/counters.ts';
import {
  openRedisCounters,
  type RedisCounters,
  type RedisCountersOptions,
} from '../../packages/server/src/adapters/counters/redis/counters.ts';
import { type RedisServer, startRedis } from '../fixtures/redis-server.ts';

let lastId = 0;

export const demand = (owner: string, changes: Partial<AdmissionDemand> = {}): AdmissionDemand => {
  lastId += 1;
  return {
    id: `admission-${lastId}`,
    owner,
    now: Date.now(),
    leaseMs: 15_000,
    requests: { amount: 1, buckets: [{ id: 'r', perMinute: 1_000_000 }] },
    tokens: { amount: 10, buckets: [{ id: 't', perMinute: 1_000_000_000 }] },
    concurrency: [{ id: 'k', limit: null }],
    budgets: [],
    chargeable: changes.budgets?.map(({ id }) => id) ?? [],
    ...changes,
  };
};

export const atOnce = (limit: number) => ({ concurrency: [{ id: 'k', limit }] });

export const budget = (limitNanoUsd: number, reserveNanoUsd: number) => ({
  budgets: [{ id: 'b', limitNanoUsd, reserveNanoUsd, expiresAt: Date.now() + 1_000_000 }],
});

export async function tickets(
  counters: RedisCounters,
  demands: readonly AdmissionDemand[],
): Promise<AdmissionTicket[]> {
  const answers = await Promise.all(demands.map((one) => counters.admit(one)));
  return answers.flatMap((answer) => (answer.kind === 'admitted' ? [answer.ticket] : []));
}

export async function setSpent(counters: RedisCounters, one: AdmissionDemand, spentNanoUsd: number): Promise<void> {
  const answer = await counters.admit(one);
  if (answer.kind !== 'unread') throw new Error(`the budget is not unread but ${answer.kind}`);
  for (const unread of answer.budgets) expect(await counters.setSpent({ ...unread, spentNanoUsd })).toBe(true);
}

/** Waits until limits are shared again. Tests that run at the same time poll with an `expect` of their own. */
export const shared = (own: ExpectStatic, counters: RedisCounters) =>
  own.poll(() => counters.status().shared, { interval: 10 }).toBe(true);

export async function commandAt(url: string, ...args: string[]): Promise<unknown> {
  const client = createClient({ url });
  await client.connect();
  try {
    return await client.sendCommand(args);
  } finally {
    client.destroy();
  }
}

/** A Redis that one test may stop, and the processes that count in it. */
export interface RedisBed extends AsyncDisposable {
  redis: RedisServer;
  open(owner: string, options?: Partial<RedisCountersOptions>): Promise<RedisCounters>;
  command(...args: string[]): Promise<unknown>;
}

export async function openRedisBed(): Promise<RedisBed> {
  const redis = await startRedis();
  const opened: RedisCounters[] = [];
  return {
    redis,
    command: (...args) => commandAt(redis.url, ...args),
    async open(owner, options = {}) {
      const counters = await openRedisCounters({
        url: redis.url,
        owner,
        leaseMs: 15_000,
        now: Date.now,
        settleMs: 600,
        // A busy machine is no outage.
        timeoutMs: 20_000,
        ...options,
      });
      opened.push(counters);
      return counters;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(opened.map((counters) => counters.close()));
      await redis.stop();
    },
  };
}
