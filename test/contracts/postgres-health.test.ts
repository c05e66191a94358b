import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { StoreUnavailableError } from '../../packages/core/src/errors/store-unavailable.ts';
import { CommitHealth } from '../../packages/server/src/adapters/sql/postgres/commit-health.ts';
import { createPool } from '../../packages/server/src/adapters/sql/postgres/connections.ts';
import { type OwnPostgres, ownPostgresMissing, startOwnPostgres } from '../fixtures/postgres-server.ts';

const LONG_MS = 120_000;

describe.skipIf(ownPostgresMissing !== undefined)('the health of PostgreSQL', () => {
  let postgres: OwnPostgres;
  let url: string;
  let health: CommitHealth;
  let pool: ReturnType<typeof createPool>;
  beforeAll(async () => {
    postgres = await startOwnPostgres();
    url = await postgres.createDatabase();
  });
  afterAll(() => postgres.stop());
  beforeEach(() => {
    pool = createPool(() => url, { max: 2 });
    health = new CommitHealth({ pool, patienceMs: LONG_MS });
  });
  afterEach(async () => {
    health.close();
    await pool.end();
  });

  const setting = async (sql: string) => {
    const client = new Client(postgres.url);
    await client.connect();
    // A database that is read-only can be made writable again.
    await client.query('set transaction_read_only = off');
    await client.query(sql);
    await client.query('select pg_reload_conf()');
    // Connections keep what they were opened with.
    await client.query(`select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()`);
    await client.end();
  };

  it('has no problem while transactions are committed', async () => {
    expect(await health.problem()).toBeUndefined();
    expect(health.back()).toBeUndefined();
  });

  it('knows a database that became read-only, and lets what waits go on when it can be written', async () => {
    await setting('alter system set default_transaction_read_only = on');
    await expect.poll(() => health.problem()).toBe('the database is read-only');
    const waiting = health.back();
    expect(waiting).toBeDefined();
    await setting('alter system reset default_transaction_read_only');
    await waiting;
    expect(await health.problem()).toBeUndefined();
  });

  it('knows a standby that must confirm commits and is gone', async () => {
    const quick = new CommitHealth({ pool, patienceMs: LONG_MS, slowMs: 500 });
    await setting(`alter system set synchronous_standby_names = 'nobody'`);
    try {
      await expect.poll(() => quick.problem()).toBe('the database has not committed for 500 ms');
    } finally {
      await setting('alter system reset synchronous_standby_names');
    }
    await quick.back();
    quick.close();
  });

  it('gives up work that takes long while nothing can be committed', async () => {
    const quick = new CommitHealth({ pool, patienceMs: LONG_MS, slowMs: 500 });
    const slow = Promise.withResolvers<string>();
    expect(await quick.orAway(Promise.resolve('quick'))).toBe('quick');
    const repeatable = quick.orAway(quick.watch(() => slow.promise));
    await setting(`alter system set synchronous_standby_names = 'nobody'`);
    try {
      await expect(repeatable).rejects.toThrow('has not committed for 500 ms');
    } finally {
      await setting('alter system reset synchronous_standby_names');
    }
    slow.resolve('committed');
    await quick.back();
    quick.close();
  });

  it('looks when a commit fails, and gives up when its patience ends or the client leaves', async () => {
    await postgres.halt('SIGQUIT');
    const impatient = new CommitHealth({ pool, patienceMs: 0 });
    const fails = () => Promise.reject(new StoreUnavailableError('gone'));
    for (const each of [health, impatient]) {
      await expect(each.watch(fails)).rejects.toThrow('gone');
      await expect.poll(() => each.isAway()).toBe(true);
    }
    await expect(impatient.back()).rejects.toThrow(StoreUnavailableError);
    impatient.close();
    expect(await health.problem()).toBe('the database does not answer');
    const client = new AbortController();
    const leaving = health.back(client.signal);
    const waiting = health.back();
    client.abort();
    await expect(leaving).rejects.toMatchObject({ code: 'client_cancelled' });
    await postgres.start();
    await waiting;
  });
});
