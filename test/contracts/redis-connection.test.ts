import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type ExpectStatic, expect, it } from 'vitest';
import { StoreAwayError } from '../../packages/core/src/errors/store-unavailable.ts';
import { freePort } from '../fixtures/free-port.ts';
import { ownRedisMissing, startRedis, startSentinel } from '../fixtures/redis-server.ts';
import { atOnce, commandAt, demand, openRedisBed, type RedisBed, shared, tickets } from './redis-bed.ts';

/** At the same time, each with a Redis of its own: the failover takes seconds. */
describe.skipIf(ownRedisMissing !== undefined).concurrent('counters in Redis', () => {
  describe('that cannot be used', () => {
    it.each([
      ['unreachable', 'redis://127.0.0.1:1', /Redis at 127\.0\.0\.1:1 cannot be reached: the connection was refused/],
      ['of an unknown host', 'redis://redis.invalid', /cannot be reached: the host name could not be resolved/],
    ])('%s: says so', async (_, url, message) => {
      await using bed = await openRedisBed();
      const { open } = bed;
      await expect(open('a', { url })).rejects.toThrow(message);
      await expect(open('a', { url })).rejects.toBeInstanceOf(StoreAwayError);
    });

    it('with a wrong password: says so without showing it', async () => {
      await using bed = await openRedisBed();
      const { command, open, redis } = bed;
      await command('CONFIG', 'SET', 'requirepass', 'right');
      const url = `redis://:wrong-secret@127.0.0.1:${redis.port}`;
      await expect(open('a', { url })).rejects.toThrow(/refuses the user or the password in counters/);
      await expect(open('a', { url })).rejects.not.toThrow('wrong-secret');
      await expect(open('a')).rejects.toThrow(/refuses the user or the password/);
      await expect(open('a')).rejects.not.toBeInstanceOf(StoreAwayError);
      expect((await open('a', { url: `redis://:right@127.0.0.1:${redis.port}` })).status().shared).toBe(true);
    });

    it('warn when Redis may evict them', async () => {
      await using bed = await openRedisBed();
      const { command, open } = bed;
      await command('CONFIG', 'SET', 'maxmemory', '100mb', 'maxmemory-policy', 'allkeys-lru');
      const warnings: string[] = [];
      await open('a', { onWarning: (text) => warnings.push(text) });
      expect(warnings).toEqual([
        'Redis may remove counters when its memory is full (allkeys-lru). Set maxmemory-policy noeviction.',
      ]);
    });
  });

  it('are reached over TLS, with the certificate checked', async () => {
    await using bed = await openRedisBed();
    const { open } = bed;
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

  async function startWatched(expect: ExpectStatic, bed: RedisBed, directory: string) {
    const { command, redis } = bed;
    const replica = await startRedis(['--replicaof', '127.0.0.1', `${redis.port}`]);
    // The sentinel asks for replicas when it starts, and again only after ten seconds.
    await expect.poll(() => command('INFO', 'replication'), { interval: 50 }).toMatch(/state=online/);
    const port = await freePort();
    const config = join(directory, 'sentinel.conf');
    // Long enough that a busy machine is no failure. A failover that fails is tried again after twice the second time.
    const times = 'sentinel down-after-milliseconds main 3000\nsentinel failover-timeout main 3000\n';
    const watched = `sentinel monitor main 127.0.0.1 ${redis.port} 1\n${times}`;
    await writeFile(config, `port ${port}\nbind 127.0.0.1\n${watched}`);
    const sentinel = await startSentinel(config);
    const ask = (...args: string[]) => commandAt(`redis://127.0.0.1:${port}`, 'SENTINEL', ...args);
    // The sentinel must know the replica.
    await expect
      .poll(async () => JSON.stringify(await ask('REPLICAS', 'main')), { interval: 100 })
      .toMatch(/"role-reported"[,:]"slave"/);
    return { port, ask, stop: async () => void (await Promise.all([sentinel(), replica.stop()])) };
  }

  it('are found through a sentinel, also after a failover', async ({ expect }) => {
    await using bed = await openRedisBed();
    const { command, open, redis } = bed;
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-sentinel-'));
    const { port, stop } = await startWatched(expect, bed, directory.path);
    try {
      const url = `redis+sentinel://127.0.0.1:1,127.0.0.1:${port}/main`;
      await expect(open('b', { url: `redis+sentinel://127.0.0.1:${port}/other` })).rejects.toThrow(
        /knows no primary 'other'/,
      );
      const a = await open('a', { url });
      await tickets(a, [demand('a', atOnce(2))]);
      // The replica must have the ticket.
      await command('WAIT', '1', '0');
      await redis.kill();
      await a.admit(demand('a', atOnce(0)));
      expect(a.status().shared).toBe(false);
      await shared(expect, a);
      expect(await tickets(a, [demand('a', atOnce(2)), demand('a', atOnce(2))])).toHaveLength(1);
    } finally {
      await stop();
    }
  });

  it('leave a primary that was replaced before a sentinel tells it', async ({ expect }) => {
    await using bed = await openRedisBed();
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-sentinel-'));
    const { port, ask, stop } = await startWatched(expect, bed, directory.path);
    try {
      const url = `redis+sentinel://127.0.0.1:${port}/main`;
      const before = await bed.open('a', { url });
      await tickets(before, [demand('a', atOnce(1))]);
      await ask('FAILOVER', 'main');
      await expect.poll(() => ask('GET-MASTER-ADDR-BY-NAME', 'main')).not.toContain(`${bed.redis.port}`);
      const after = await bed.open('b', { url });
      await expect.poll(() => before.status().shared, { timeout: 15_000, interval: 10 }).toBe(false);
      expect(String(await bed.command('INFO', 'replication'))).toContain('role:master');
      await shared(expect, before);
      await shared(expect, after);
      expect(await tickets(after, [demand('b', atOnce(1))])).toHaveLength(0);
    } finally {
      await stop();
    }
  });
});
