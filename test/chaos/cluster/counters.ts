import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from '@redis/client';
import { freePort } from '../../fixtures/free-port.ts';
import { type RedisServer, startRedis, startSentinel } from '../../fixtures/redis-server.ts';

/** One Redis, or two that a sentinel watches. */
export interface Counters {
  readonly servers: readonly RedisServer[];
  /** Its port. */
  readonly sentinel: number | undefined;
  /** The server that counts now. */
  primary(): Promise<RedisServer>;
  /** Forgets everything, and goes on. */
  flush(): Promise<void>;
  /** Makes the other server the primary. */
  failOver(): Promise<void>;
  stop(): Promise<void>;
}

export const PRIMARY = 'main';
/** Longer than a busy machine pauses a server. */
const DOWN_AFTER_MS = 2_500;
const PAUSE_MS = 200;
const ATTEMPTS = 100;

async function command(port: number, ...args: string[]): Promise<unknown> {
  const client = createClient({ url: `redis://127.0.0.1:${port}`, socket: { reconnectStrategy: false } });
  client.on('error', () => {});
  await client.connect();
  try {
    return await client.sendCommand(args);
  } finally {
    client.destroy();
  }
}

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  for (let attempt = 0; attempt < ATTEMPTS && !(await isTrue().catch(() => false)); attempt += 1) await sleep(PAUSE_MS);
}

export async function startCounters(directory: string, withSentinel: boolean): Promise<Counters> {
  const first = await startRedis();
  const flush = async (server: RedisServer) => void (await command(server.port, 'FLUSHALL'));
  if (!withSentinel) {
    const primary = async () => first;
    const failOver = async () => {};
    return { servers: [first], sentinel: undefined, primary, flush: () => flush(first), failOver, stop: first.stop };
  }
  // By command: with the option it would be a replica again after each start.
  const second = await startRedis();
  await command(second.port, 'REPLICAOF', '127.0.0.1', `${first.port}`);
  await until(async () => String(await command(first.port, 'INFO', 'replication')).includes('state=online'));
  const port = await freePort();
  const file = join(directory, 'sentinel.conf');
  await writeFile(
    file,
    `port ${port}
bind 127.0.0.1
sentinel monitor ${PRIMARY} 127.0.0.1 ${first.port} 1
sentinel down-after-milliseconds ${PRIMARY} ${DOWN_AFTER_MS}
sentinel failover-timeout ${PRIMARY} 3000
`,
  );
  const stopSentinel = await startSentinel(file);
  const servers = [first, second];
  const primary = async () => {
    const [, at] = (await command(port, 'SENTINEL', 'get-master-addr-by-name', PRIMARY)) as string[];
    return servers.find((server) => `${server.port}` === at) ?? first;
  };
  return {
    servers,
    sentinel: port,
    primary,
    flush: async () => flush(await primary()),
    async failOver() {
      const before = await primary();
      // It refuses while it does not know the other one well.
      await until(async () => (await command(port, 'SENTINEL', 'FAILOVER', PRIMARY)) === 'OK');
      await until(async () => (await primary()) !== before);
    },
    async stop() {
      await stopSentinel();
      await Promise.all(servers.map((server) => server.stop()));
    },
  };
}
