import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@redis/client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  openRedisCounters,
  type RedisCounters,
  type RedisCountersOptions,
} from '../../src/adapters/counters/redis/counters.ts';
import { StoreUnavailableError } from '../../src/errors/store-unavailable.ts';
import type { AdmissionDemand, AdmissionTicket } from '../../src/ports/counters.ts';
import { freePort, ownRedisMissing, type RedisServer, startRedis, startSentinel } from '../fixtures/redis-server.ts';

if (ownRedisMissing !== undefined) console.warn(ownRedisMissing);

let lastId = 0;

const demand = (owner: string, changes: Partial<AdmissionDemand> = {}): AdmissionDemand => {
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

const atOnce = (limit: number) => ({ concurrency: [{ id: 'k', limit }] });

const budget = (limitNanoUsd: number, reserveNanoUsd: number) => ({
  budgets: [{ id: 'b', limitNanoUsd, reserveNanoUsd, expiresAt: Date.now() + 1_000_000 }],
});

describe.skipIf(ownRedisMissing !== undefined)('counters in Redis', () => {
  let redis: RedisServer;
  const opened: RedisCounters[] = [];
  beforeEach(async () => {
    redis = await startRedis();
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((counters) => counters.close()));
    await redis.stop();
  });

  async function open(owner: string, options: Partial<RedisCountersOptions> = {}): Promise<RedisCounters> {
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
  }

  async function commandAt(url: string, ...args: string[]): Promise<unknown> {
    const client = createClient({ url });
    await client.connect();
    try {
      return await client.sendCommand(args);
    } finally {
      client.destroy();
    }
  }

  const command = (...args: string[]) => commandAt(redis.url, ...args);

  const tickets = async (counters: RedisCounters, demands: readonly AdmissionDemand[]): Promise<AdmissionTicket[]> => {
    const answers = await Promise.all(demands.map((one) => counters.admit(one)));
    return answers.flatMap((answer) => (answer.kind === 'admitted' ? [answer.ticket] : []));
  };

  const openBudget = async (counters: RedisCounters, one: AdmissionDemand, spentNanoUsd: number) => {
    const answer = await counters.admit(one);
    if (answer.kind !== 'closed') throw new Error(`the budget is not closed but ${answer.kind}`);
    for (const closed of answer.budgets) expect(await counters.openBudget({ ...closed, spentNanoUsd })).toBe(true);
  };

  const shared = (counters: RedisCounters) => expect.poll(() => counters.status().shared, { interval: 10 }).toBe(true);

  describe('of two processes', () => {
    it('hold every limit together, and all of it can be used', async () => {
      const [a, b] = [await open('a'), await open('b')];
      const of = (owner: string) => Array.from({ length: 300 }, () => demand(owner, atOnce(100)));
      const [first, second] = await Promise.all([tickets(a, of('a')), tickets(b, of('b'))]);
      expect(first.length + second.length).toBe(100);
      const minute = { requests: { amount: 1, buckets: [{ id: 'slow', perMinute: 60 }] } };
      const start = Date.now();
      const rates = await Promise.all([
        tickets(
          a,
          Array.from({ length: 100 }, () => demand('a', minute)),
        ),
        tickets(
          b,
          Array.from({ length: 100 }, () => demand('b', minute)),
        ),
      ]);
      const refilled = Math.ceil((Date.now() - start) / 1_000);
      expect(rates.flat().length).toBeGreaterThanOrEqual(60);
      expect(rates.flat().length).toBeLessThanOrEqual(60 + refilled);
    });

    it('reserve no more than a budget, and charge it together', async () => {
      const [a, b] = [await open('a'), await open('b')];
      await openBudget(a, demand('a', budget(1_000, 30)), 100);
      const of = (owner: string) => Array.from({ length: 30 }, () => demand(owner, budget(1_000, 30)));
      const held = [
        ...(await tickets(a, of('a'))).map((one) => ({ one, by: a })),
        ...(await tickets(b, of('b'))).map((one) => ({ one, by: b })),
      ];
      expect(held).toHaveLength(30);
      const charge = { budgets: ['b'], nanoUsd: 20 };
      await Promise.all(held.map(({ one, by }) => by.settle(one, { now: Date.now(), tokens: 10, charge })));
      expect(await b.admit(demand('b', budget(1_000, 30)))).toMatchObject({
        kind: 'admitted',
        budgets: [{ spentNanoUsd: 700, reservedNanoUsd: 30 }],
      });
    });

    it('get back what a dead one held when its lease is over, by the time of Redis', async () => {
      // Clocks of processes do not matter.
      const [a, b] = [await open('a', { leaseMs: 200, now: () => 0 }), await open('b')];
      expect(await tickets(a, [demand('a', { ...atOnce(1), leaseMs: 200, now: 0 })])).toHaveLength(1);
      expect(await tickets(b, [demand('b', atOnce(1))])).toHaveLength(0);
      const start = Date.now();
      await expect.poll(() => tickets(b, [demand('b', atOnce(1))]), { interval: 10 }).toHaveLength(1);
      // Less than the 15 s that leases last otherwise.
      expect(Date.now() - start).toBeLessThan(10_000);
      await b.renew('b', { now: 0, leaseMs: 15_000 });
      expect(b.status().replicas).toBe(1);
    });

    it('get back at once what one held that stopped', async () => {
      const [a, b] = [await open('a'), await open('b')];
      await tickets(a, [demand('a', atOnce(1))]);
      await a.close();
      expect(await tickets(b, [demand('b', atOnce(1))])).toHaveLength(1);
    });
  });

  describe('that went away', () => {
    it('are replaced by equal shares, and limits are shared again when it is back', async () => {
      const [a, b] = [await open('a'), await open('b')];
      await a.renew('a', { now: Date.now(), leaseMs: 15_000 });
      expect(a.status()).toEqual({ shared: true, replicas: 2 });
      const running = await tickets(a, [demand('a', atOnce(10)), demand('a', atOnce(10))]);
      await tickets(b, [demand('b', atOnce(10))]);
      await redis.kill();
      const many = (owner: string) => Array.from({ length: 20 }, () => demand(owner, atOnce(10)));
      // Two are running already.
      const alone = await tickets(a, many('a'));
      expect(alone).toHaveLength(3);
      expect(await tickets(b, many('b'))).toHaveLength(4);
      expect([a.status().shared, b.status().shared]).toEqual([false, false]);
      for (const ticket of [running[0], alone[0]]) if (ticket) await a.settle(ticket, { now: Date.now(), tokens: 10 });

      await redis.start();
      await Promise.all([shared(a), shared(b)]);
      // Redis is empty, yet knows what runs: three of a and five of b.
      expect(await tickets(a, many('a'))).toHaveLength(2);
      expect(await tickets(b, many('b'))).toHaveLength(0);
    });

    it('are shared with a process that joined after the last renewal', async () => {
      const a = await open('a');
      expect(a.status()).toEqual({ shared: true, replicas: 1 });
      await open('b');
      await a.admit(demand('a', atOnce(0)));
      expect(a.status()).toEqual({ shared: true, replicas: 2 });
      await redis.kill();
      const many = Array.from({ length: 20 }, () => demand('a', atOnce(10)));
      expect(await tickets(a, many)).toHaveLength(5);
    });

    it('are shared with a process that joined, before the first request', async () => {
      const a = await open('a');
      await open('b');
      await expect.poll(() => a.status().replicas).toBe(2);
    });

    it('go on from the levels that were seen last, before and after', async () => {
      const [a] = [await open('a')];
      const slow = (amount: number) => demand('a', { requests: { amount, buckets: [{ id: 'slow', perMinute: 60 }] } });
      expect(await tickets(a, [slow(50)])).toHaveLength(1);
      await redis.kill();
      expect(await tickets(a, [slow(20)])).toHaveLength(0);
      expect(await tickets(a, [slow(8)])).toHaveLength(1);
      await redis.start();
      await shared(a);
      expect(await tickets(a, [slow(20)])).toHaveLength(0);
      expect(await tickets(a, [slow(1)])).toHaveLength(1);
    });

    /** Redis is back and has learned what runs, but the counters are not used yet. */
    const untilPutIn = (pattern: string) =>
      expect.poll(() => command('KEYS', pattern).catch(() => []), { interval: 10 }).toHaveLength(1);

    it('give back places of requests that end while Redis learns what runs', async () => {
      const a = await open('a', { settleMs: 3_000 });
      const running = await tickets(a, [demand('a', atOnce(2)), demand('a', atOnce(2))]);
      await redis.kill();
      await expect.poll(() => a.status().shared, { interval: 10 }).toBe(false);
      await redis.start();
      await untilPutIn('*:held:*');
      for (const ticket of running) await a.settle(ticket, { now: Date.now(), tokens: 10 });
      await shared(a);
      expect(await tickets(a, [demand('a', atOnce(2)), demand('a', atOnce(2))])).toHaveLength(2);
    });

    it('come back on one connection, and lose no place, when Redis goes away at the moment it is back', async () => {
      const kills: Promise<void>[] = [];
      const onChange: RedisCountersOptions['onChange'] = ({ shared: isShared }) => {
        if (isShared && kills.length === 0) kills.push(redis.kill());
      };
      const a = await open('a', { settleMs: 3_000, onChange });
      await redis.kill();
      await expect.poll(() => a.status().shared, { interval: 10 }).toBe(false);
      await redis.start();
      await untilPutIn('*:owners');
      // Put in after the switch, which is when Redis is killed.
      const late = await tickets(a, [demand('a', atOnce(2)), demand('a', atOnce(2))]);
      await expect.poll(() => kills.length, { interval: 10 }).toBe(1);
      await Promise.all(kills);
      await redis.start();
      await shared(a);
      for (const ticket of late) await a.settle(ticket, { now: Date.now(), tokens: 10 });
      expect(await tickets(a, [demand('a', atOnce(2)), demand('a', atOnce(2))])).toHaveLength(2);
      const connections = async () => String(await command('CLIENT', 'LIST')).match(/ name=baobab /g)?.length ?? 0;
      expect(await connections()).toBe(1);
      await a.close();
      await expect.poll(connections).toBe(0);
    });

    it('count what was taken while Redis learned the levels', async () => {
      const a = await open('a', { settleMs: 3_000 });
      const slow = (amount: number) => demand('a', { requests: { amount, buckets: [{ id: 'slow', perMinute: 60 }] } });
      const start = Date.now();
      let admitted = 30 * (await tickets(a, [slow(30)])).length;
      await redis.kill();
      await expect.poll(() => a.status().shared, { interval: 10 }).toBe(false);
      await redis.start();
      await untilPutIn('*:bucket:slow');
      admitted += 25 * (await tickets(a, [slow(25)])).length;
      await shared(a);
      admitted += 10 * (await tickets(a, [slow(10), slow(10), slow(10)])).length;
      expect(admitted).toBeLessThanOrEqual(60 + Math.ceil((Date.now() - start) / 1_000));
    });

    it('count what was taken by a process that was cut off', async () => {
      const slow = (owner: string, amount: number) =>
        demand(owner, { requests: { amount, buckets: [{ id: 'slow', perMinute: 60 }] } });
      const alone: unknown[] = [];
      const onChange = ({ shared: isShared }: { shared: boolean }) => {
        if (!isShared) alone.push(a.admit(slow('a', 30)));
      };
      const a = await open('a', { onChange });
      const b = await open('b');
      const start = Date.now();
      await command('CLIENT', 'KILL', 'TYPE', 'normal');
      await expect.poll(() => alone).toMatchObject([{ kind: 'admitted' }]);
      await Promise.all([shared(a), shared(b)]);
      const many = Array.from({ length: 60 }, () => slow('b', 1));
      const refilled = () => Math.ceil((Date.now() - start) / 1_000);
      expect(30 + (await tickets(b, many)).length).toBeLessThanOrEqual(60 + refilled());
    });

    it('share what is left of a budget, and read it from the ledger again afterwards', async () => {
      const [a, b] = [await open('a'), await open('b')];
      for (const [counters, owner] of [
        [a, 'a'],
        [b, 'b'],
      ] as const)
        await counters.renew(owner, { now: 0, leaseMs: 15_000 });
      await openBudget(a, demand('a', budget(1_000, 10)), 0);
      await redis.kill();
      const of = (owner: string) => demand(owner, budget(1_000, 100));
      await openBudget(a, of('a'), 200);
      const held = await tickets(
        a,
        Array.from({ length: 9 }, () => of('a')),
      );
      expect(held).toHaveLength(4);
      const charge = { budgets: ['b'], nanoUsd: 100 };
      if (held[0]) await a.settle(held[0], { now: Date.now(), tokens: 10, charge });
      expect(await tickets(a, [of('a')])).toHaveLength(0);
      await redis.start();
      await Promise.all([shared(a), shared(b)]);
      await openBudget(b, of('b'), 300);
      expect(await b.admit(of('b'))).toMatchObject({ budgets: [{ spentNanoUsd: 300, reservedNanoUsd: 400 }] });
    });

    it('close budgets that were charged while one process was cut off', async () => {
      const [a, b] = [await open('a'), await open('b')];
      await openBudget(a, demand('a', budget(1_000, 10)), 0);
      const [before] = await tickets(a, [demand('a', budget(1_000, 10))]);
      await command('CLIENT', 'KILL', 'TYPE', 'normal');
      await shared(a);
      const charge = { budgets: ['b'], nanoUsd: 100 };
      if (before) await a.settle(before, { now: Date.now(), tokens: 10, charge });
      await shared(b);
      const answer = await b.admit(demand('b', budget(1_000, 10)));
      expect(answer.kind).toBe('closed');
    });

    it('answer within the time limit while Redis hangs', async () => {
      const a = await open('a', { timeoutMs: 200 });
      const [running] = await tickets(a, [demand('a')]);
      redis.freeze();
      // Redis answers nothing before `thaw`, so these end by the time limit.
      expect(
        await tickets(
          a,
          Array.from({ length: 50 }, () => demand('a')),
        ),
      ).toHaveLength(50);
      if (running) await a.settle(running, { now: Date.now(), tokens: 10 });
      redis.thaw();
      await shared(a);
      // What Redis did after the time limit was given back.
      await expect.poll(() => tickets(a, [demand('a', atOnce(51))]), { interval: 10 }).toHaveLength(1);
      expect(await tickets(a, [demand('a', atOnce(51))])).toHaveLength(0);
    });

    it('are put in again after they were deleted', async () => {
      const a = await open('a');
      await tickets(a, [demand('a', atOnce(2))]);
      await command('FLUSHALL');
      await a.admit(demand('a', atOnce(0)));
      await shared(a);
      expect(await tickets(a, [demand('a', atOnce(2)), demand('a', atOnce(2))])).toHaveLength(1);
    });
  });

  describe('that cannot be used', () => {
    it.each([
      ['unreachable', 'redis://127.0.0.1:1', /Redis at 127\.0\.0\.1:1 cannot be reached \(ECONNREFUSED\)/],
      ['of an unknown host', 'redis://redis.invalid', /cannot be reached \((ENOTFOUND|EAI_AGAIN)\)/],
    ])('%s: says so', async (_, url, message) => {
      await expect(open('a', { url })).rejects.toThrow(message);
      await expect(open('a', { url })).rejects.toBeInstanceOf(StoreUnavailableError);
    });

    it('with a wrong password: says so without showing it', async () => {
      await command('CONFIG', 'SET', 'requirepass', 'right');
      const url = `redis://:wrong-secret@127.0.0.1:${redis.port}`;
      await expect(open('a', { url })).rejects.toThrow(/refuses the user or the password in counters/);
      await expect(open('a', { url })).rejects.not.toThrow('wrong-secret');
      await expect(open('a')).rejects.toThrow(/refuses the user or the password/);
      expect((await open('a', { url: `redis://:right@127.0.0.1:${redis.port}` })).status().shared).toBe(true);
    });

    it('warn when Redis may evict them', async () => {
      await command('CONFIG', 'SET', 'maxmemory', '100mb', 'maxmemory-policy', 'allkeys-lru');
      const warnings: string[] = [];
      await open('a', { onWarning: (text) => warnings.push(text) });
      expect(warnings).toEqual([
        'Redis may remove counters when its memory is full (allkeys-lru). Set maxmemory-policy noeviction.',
      ]);
    });
  });

  it('are reached over TLS, with the certificate checked', async () => {
    const port = await freePort();
    const file = (name: string) => join(import.meta.dirname, '../fixtures/tls', name);
    const pair = ['--tls-cert-file', file('first.crt'), '--tls-key-file', file('first.key')];
    const secure = await startRedis(['--tls-port', `${port}`, ...pair, '--tls-auth-clients', 'no']);
    try {
      const url = `rediss://localhost:${port}`;
      await expect(open('a', { url })).rejects.toThrow(/cannot be used: .*certificate/);
      const a = await open('a', { url: `${url}?ca=${file('first.crt')}` });
      expect(await tickets(a, [demand('a')])).toHaveLength(1);
    } finally {
      await secure.stop();
    }
  });

  it('are found through a sentinel, also after a failover', async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-sentinel-'));
    const replica = await startRedis(['--replicaof', '127.0.0.1', `${redis.port}`]);
    // The sentinel asks for replicas when it starts, and again only after ten seconds.
    await expect.poll(() => command('INFO', 'replication'), { interval: 50 }).toMatch(/state=online/);
    const port = await freePort();
    const config = join(directory.path, 'sentinel.conf');
    // Long enough that a busy machine is no failure. A failover that fails is tried again after twice the second time.
    const times = 'sentinel down-after-milliseconds main 3000\nsentinel failover-timeout main 3000\n';
    const watched = `sentinel monitor main 127.0.0.1 ${redis.port} 1\n${times}`;
    await writeFile(config, `port ${port}\nbind 127.0.0.1\n${watched}`);
    const sentinel = await startSentinel(config);
    try {
      const url = `redis+sentinel://127.0.0.1:1,127.0.0.1:${port}/main`;
      await expect(open('b', { url: `redis+sentinel://127.0.0.1:${port}/other` })).rejects.toThrow(
        /knows no primary 'other'/,
      );
      const a = await open('a', { url });
      await tickets(a, [demand('a', atOnce(2))]);
      // The replica must have the ticket, and the sentinel must know the replica.
      await command('WAIT', '1', '0');
      const replicas = () => commandAt(`redis://127.0.0.1:${port}`, 'SENTINEL', 'REPLICAS', 'main');
      await expect
        .poll(async () => JSON.stringify(await replicas()), { interval: 100 })
        .toMatch(/"role-reported"[,:]"slave"/);
      await redis.kill();
      await a.admit(demand('a', atOnce(0)));
      expect(a.status().shared).toBe(false);
      await shared(a);
      expect(await tickets(a, [demand('a', atOnce(2)), demand('a', atOnce(2))])).toHaveLength(1);
    } finally {
      await Promise.all([sentinel(), replica.stop()]);
    }
  });
});
