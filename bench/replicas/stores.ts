import { readFileSync } from 'node:fs';
import { createClient } from '@redis/client';
import { Client } from 'pg';
import { startOwnPostgres } from '../../test/fixtures/postgres-server.ts';
import { startRedis } from '../../test/fixtures/redis-server.ts';
import { childrenOf, processorSeconds } from '../measure.ts';

/** What PostgreSQL and Redis did since they started. */
export interface StoreWork {
  commits: number;
  walBytes: number;
  /** Of all tables and indexes. */
  databaseBytes: number;
  postgresSeconds: number;
  redisCalls: number;
  redisSeconds: number;
}

export interface Stores extends AsyncDisposable {
  /** An empty database and counters of its own, for one installation. */
  next(): Promise<{ store: string; counters: string }>;
  work(): Promise<StoreWork>;
}

/** Both on this machine, on the cores of this process. PostgreSQL syncs its log to the disk before it answers a commit. */
export async function startStores(): Promise<Stores> {
  const [postgres, redis] = await Promise.all([startOwnPostgres({ fsync: true }), startRedis(['--databases', '64'])]);
  const observer = new Client(await postgres.createDatabase());
  const counters = await createClient({ url: redis.url }).connect();
  await observer.connect();
  const { rows } = await observer.query<{ pid: number }>('select pg_backend_pid() as pid');
  const postmaster = Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${rows[0]?.pid}/status`, 'utf8'))?.[1]);
  let databases = 0;

  return {
    async next() {
      databases += 1;
      return { store: await postgres.createDatabase(), counters: `${redis.url}/${databases}` };
    },
    async work() {
      const [found] = (
        await observer.query<{ commits: string; wal: string; size: string }>(
          `select (select sum(xact_commit) from pg_stat_database) as commits, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') as wal,
             (select sum(pg_database_size(oid)) from pg_database) as size`,
        )
      ).rows;
      const info = await counters.info();
      // The total also counts what scripts call.
      const scripts = (await counters.info('commandstats')).matchAll(/^cmdstat_(?:eval|evalsha|fcall):calls=(\d+)/gm);
      const fact = (name: string) => Number(new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1]);
      return {
        commits: Number(found?.commits),
        walBytes: Number(found?.wal),
        databaseBytes: Number(found?.size),
        postgresSeconds: processorSeconds([postmaster, ...childrenOf(postmaster)]),
        redisCalls: [...scripts].reduce((sum, [, calls]) => sum + Number(calls), 0),
        redisSeconds: fact('used_cpu_user') + fact('used_cpu_sys'),
      };
    },
    async [Symbol.asyncDispose]() {
      await observer.end();
      counters.destroy();
      await Promise.all([postgres.stop(), redis.stop()]);
    },
  };
}
