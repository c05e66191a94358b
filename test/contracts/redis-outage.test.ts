import { describe, type ExpectStatic, expect, it } from 'vitest';
import type { RedisCountersOptions } from '../../packages/server/src/adapters/counters/redis/counters.ts';
import { ownRedisMissing } from '../fixtures/redis-server.ts';
import { atOnce, budget, demand, openRedisBed, type RedisBed, setSpent, shared, tickets } from './redis-bed.ts';

/** They wait more than they work, so they run at the same time, each with a Redis of its own. */
describe.skipIf(ownRedisMissing !== undefined).concurrent('counters in Redis', () => {
  describe('of two processes', () => {
    it('hold every limit together, and all of it can be used', async () => {
      await using bed = await openRedisBed();
      const { open } = bed;
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
      await using bed = await openRedisBed();
      const { open } = bed;
      const [a, b] = [await open('a'), await open('b')];
      await setSpent(a, demand('a', budget(1_000, 30)), 100);
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

    it('get back what a dead one held when its lease is over, by the time of Redis', async ({ expect }) => {
      await using bed = await openRedisBed();
      const { open } = bed;
      // Clocks of processes do not matter.
      const [a, b] = [await open('a', { leaseMs: 3_000, now: () => 0 }), await open('b')];
      expect(await tickets(a, [demand('a', { ...atOnce(1), leaseMs: 3_000, now: 0 })])).toHaveLength(1);
      expect(await tickets(b, [demand('b', atOnce(1))])).toHaveLength(0);
      const start = Date.now();
      await expect.poll(() => tickets(b, [demand('b', atOnce(1))]), { interval: 10 }).toHaveLength(1);
      // Less than the 15 s that leases last otherwise.
      expect(Date.now() - start).toBeLessThan(14_000);
      await b.renew('b', { now: 0, leaseMs: 15_000 });
      expect(b.status().replicas).toBe(1);
    });

    it('get back at once what one held that stopped', async () => {
      await using bed = await openRedisBed();
      const { open } = bed;
      const [a, b] = [await open('a'), await open('b')];
      await tickets(a, [demand('a', atOnce(1))]);
      await a.close();
      expect(await tickets(b, [demand('b', atOnce(1))])).toHaveLength(1);
    });
  });

  describe('that went away', () => {
    it('are replaced by equal shares, and limits are shared again when it is back', async ({ expect }) => {
      await using bed = await openRedisBed();
      const { open, redis } = bed;
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
      await Promise.all([shared(expect, a), shared(expect, b)]);
      // Redis is empty, yet knows what runs: three of a and five of b.
      expect(await tickets(a, many('a'))).toHaveLength(2);
      expect(await tickets(b, many('b'))).toHaveLength(0);
    });

    it('give steps of a running request from the share, which Redis knows when it is back', async ({ expect }) => {
      await using bed = await openRedisBed();
      const { open, redis } = bed;
      const a = await open('a');
      await setSpent(a, demand('a', budget(1_000, 0)), 100);
      const [ticket] = await tickets(a, [demand('a', budget(1_000, 300))]);
      if (ticket === undefined) throw new Error('the request was refused');
      await redis.kill();
      const more = (nanoUsd: number) => ({ now: Date.now(), tokens: 0, ...budget(1_000, nanoUsd) });
      const extend = async (nanoUsd: number) => {
        let answer = await a.extend(ticket, more(nanoUsd));
        while (answer.kind === 'unread') {
          for (const unread of answer.budgets) await a.setSpent({ ...unread, spentNanoUsd: 100 });
          answer = await a.extend(ticket, more(nanoUsd));
        }
        return answer.kind;
      };
      expect([await extend(200), await extend(901)]).toEqual(['extended', 'refused']);
      await redis.start();
      await shared(expect, a);
      // 500 are reserved, and what was spent is read again.
      await setSpent(a, demand('a', budget(1_000, 0)), 100);
      expect([await extend(401), await extend(400)]).toEqual(['refused', 'extended']);
      await a.settle(ticket, { now: Date.now(), tokens: 0 });
      expect(await tickets(a, [demand('a', budget(1_000, 900))])).toHaveLength(1);
    });

    it('are shared with a process that joined after the last renewal', async () => {
      await using bed = await openRedisBed();
      const { open, redis } = bed;
      const a = await open('a');
      expect(a.status()).toEqual({ shared: true, replicas: 1 });
      await open('b');
      await a.admit(demand('a', atOnce(0)));
      expect(a.status()).toEqual({ shared: true, replicas: 2 });
      await redis.kill();
      const many = Array.from({ length: 20 }, () => demand('a', atOnce(10)));
      expect(await tickets(a, many)).toHaveLength(5);
    });

    it('are shared with a process that joined, before the first request', async ({ expect }) => {
      await using bed = await openRedisBed();
      const { open } = bed;
      const a = await open('a');
      await open('b');
      await expect.poll(() => a.status().replicas).toBe(2);
    });

    it('go on from the levels that were seen last, before and after', async ({ expect }) => {
      await using bed = await openRedisBed();
      const { open, redis } = bed;
      const [a] = [await open('a')];
      const slow = (amount: number) => demand('a', { requests: { amount, buckets: [{ id: 'slow', perMinute: 60 }] } });
      expect(await tickets(a, [slow(50)])).toHaveLength(1);
      await redis.kill();
      expect(await tickets(a, [slow(20)])).toHaveLength(0);
      expect(await tickets(a, [slow(8)])).toHaveLength(1);
      await redis.start();
      await shared(expect, a);
      expect(await tickets(a, [slow(20)])).toHaveLength(0);
      expect(await tickets(a, [slow(1)])).toHaveLength(1);
    });

    /** Redis is back and has learned what runs, but the counters are not used yet. */
    const untilPutIn = (own: ExpectStatic, { command }: RedisBed, pattern: string) =>
      own.poll(() => command('KEYS', pattern).catch(() => []), { interval: 10 }).toHaveLength(1);

    it('give back slots of requests that end while Redis learns what runs', async ({ expect }) => {
      await using bed = await openRedisBed();
      const { open, redis } = bed;
      const a = await open('a', { settleMs: 6_000 });
      const running = await tickets(a, [demand('a', atOnce(2)), demand('a', atOnce(2))]);
      await redis.kill();
      await expect.poll(() => a.status().shared, { interval: 10 }).toBe(false);
      await redis.start();
      await untilPutIn(expect, bed, '*:held:*');
      for (const ticket of running) await a.settle(ticket, { now: Date.now(), tokens: 10 });
      await shared(expect, a);
      expect(await tickets(a, [demand('a', atOnce(2)), demand('a', atOnce(2))])).toHaveLength(2);
    });

    it('come back on one connection, and lose no place, when Redis goes away at the moment it is back', async ({
      expect,
    }) => {
      await using bed = await openRedisBed();
      const { command, open, redis } = bed;
      const kills: Promise<void>[] = [];
      const onChange: RedisCountersOptions['onChange'] = ({ shared: isShared }) => {
        if (isShared && kills.length === 0) kills.push(redis.kill());
      };
      const a = await open('a', { settleMs: 6_000, onChange });
      await redis.kill();
      await expect.poll(() => a.status().shared, { interval: 10 }).toBe(false);
      await redis.start();
      await untilPutIn(expect, bed, '*:owners');
      // Put in after the switch, which is when Redis is killed.
      const late = await tickets(a, [demand('a', atOnce(2)), demand('a', atOnce(2))]);
      await expect.poll(() => kills.length, { interval: 10 }).toBe(1);
      await Promise.all(kills);
      await redis.start();
      await shared(expect, a);
      for (const ticket of late) await a.settle(ticket, { now: Date.now(), tokens: 10 });
      expect(await tickets(a, [demand('a', atOnce(2)), demand('a', atOnce(2))])).toHaveLength(2);
      const connections = async () => String(await command('CLIENT', 'LIST')).match(/ name=baobab /g)?.length ?? 0;
      expect(await connections()).toBe(1);
      await a.close();
      await expect.poll(connections).toBe(0);
    });

    it('count what was taken while Redis learned the levels', async ({ expect }) => {
      await using bed = await openRedisBed();
      const { open, redis } = bed;
      const a = await open('a', { settleMs: 6_000 });
      const slow = (amount: number) => demand('a', { requests: { amount, buckets: [{ id: 'slow', perMinute: 60 }] } });
      const start = Date.now();
      let admitted = 30 * (await tickets(a, [slow(30)])).length;
      await redis.kill();
      await expect.poll(() => a.status().shared, { interval: 10 }).toBe(false);
      await redis.start();
      await untilPutIn(expect, bed, '*:bucket:slow');
      admitted += 25 * (await tickets(a, [slow(25)])).length;
      await shared(expect, a);
      admitted += 10 * (await tickets(a, [slow(10), slow(10), slow(10)])).length;
      expect(admitted).toBeLessThanOrEqual(60 + Math.ceil((Date.now() - start) / 1_000));
    });

    it('count what was taken by a process that was cut off', async ({ expect }) => {
      await using bed = await openRedisBed();
      const { command, open } = bed;
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
      await Promise.all([shared(expect, a), shared(expect, b)]);
      const many = Array.from({ length: 60 }, () => slow('b', 1));
      const refilled = () => Math.ceil((Date.now() - start) / 1_000);
      expect(30 + (await tickets(b, many)).length).toBeLessThanOrEqual(60 + refilled());
    });

    it('share what is left of a budget, and read it from the ledger again afterwards', async ({ expect }) => {
      await using bed = await openRedisBed();
      const { open, redis } = bed;
      const [a, b] = [await open('a'), await open('b')];
      for (const [counters, owner] of [
        [a, 'a'],
        [b, 'b'],
      ] as const)
        await counters.renew(owner, { now: 0, leaseMs: 15_000 });
      await setSpent(a, demand('a', budget(1_000, 10)), 0);
      await redis.kill();
      const of = (owner: string) => demand(owner, budget(1_000, 100));
      await setSpent(a, of('a'), 200);
      const held = await tickets(
        a,
        Array.from({ length: 9 }, () => of('a')),
      );
      expect(held).toHaveLength(4);
      const charge = { budgets: ['b'], nanoUsd: 100 };
      if (held[0]) await a.settle(held[0], { now: Date.now(), tokens: 10, charge });
      expect(await tickets(a, [of('a')])).toHaveLength(0);
      await redis.start();
      await Promise.all([shared(expect, a), shared(expect, b)]);
      await setSpent(b, of('b'), 300);
      expect(await b.admit(of('b'))).toMatchObject({ budgets: [{ spentNanoUsd: 300, reservedNanoUsd: 400 }] });
    });

    it('close budgets that were charged while one process was cut off', async ({ expect }) => {
      await using bed = await openRedisBed();
      const { command, open } = bed;
      const openWatched = async (owner: string) => {
        const { promise: lost, resolve } = Promise.withResolvers<void>();
        const onChange: RedisCountersOptions['onChange'] = ({ shared: isShared }) => {
          if (!isShared) resolve();
        };
        return { counters: await open(owner, { onChange }), lost };
      };
      const [{ counters: a, lost: aLost }, { counters: b, lost: bLost }] = [
        await openWatched('a'),
        await openWatched('b'),
      ];
      await setSpent(a, demand('a', budget(1_000, 10)), 0);
      const [before] = await tickets(a, [demand('a', budget(1_000, 10))]);
      await command('CLIENT', 'KILL', 'TYPE', 'normal');
      await Promise.all([aLost, bLost]);
      await shared(expect, a);
      const charge = { budgets: ['b'], nanoUsd: 100 };
      if (before) await a.settle(before, { now: Date.now(), tokens: 10, charge });
      await shared(expect, b);
      const answer = await b.admit(demand('b', budget(1_000, 10)));
      expect(answer.kind).toBe('unread');
    });

    it('answer within the time limit while Redis hangs', async ({ expect }) => {
      await using bed = await openRedisBed();
      const { open, redis } = bed;
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
      await shared(expect, a);
      // What Redis did after the time limit was given back.
      await expect.poll(() => tickets(a, [demand('a', atOnce(51))]), { interval: 10 }).toHaveLength(1);
      expect(await tickets(a, [demand('a', atOnce(51))])).toHaveLength(0);
    });

    it('are put in again after they were deleted', async ({ expect }) => {
      await using bed = await openRedisBed();
      const { command, open } = bed;
      const a = await open('a');
      await tickets(a, [demand('a', atOnce(2))]);
      await command('FLUSHALL');
      await a.admit(demand('a', atOnce(0)));
      await shared(expect, a);
      expect(await tickets(a, [demand('a', atOnce(2)), demand('a', atOnce(2))])).toHaveLength(1);
    });
  });
});
