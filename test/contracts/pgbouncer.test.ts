import { readFile } from 'node:fs/promises';
import { sql } from 'kysely';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createId } from '../../packages/core/src/runtime/ids.ts';
import { openPostgres } from '../../packages/server/src/adapters/sql/postgres/database.ts';
import { LOCKS } from '../../packages/server/src/adapters/sql/postgres/locks.ts';
import { MIGRATIONS } from '../../packages/server/src/adapters/sql/postgres/migrations/index.ts';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { type Pooler, pgbouncerMissing, startPgbouncer } from '../fixtures/pgbouncer.ts';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';
import { idempotencyContract } from './idempotency.ts';
import { account, apiKey } from './key-fixtures.ts';
import { ledgerRow } from './ledger.ts';
import { reportsContract } from './reports.ts';

const ADVISORY_SQL = `select count(*)::int as locks from pg_locks where locktype = 'advisory'
  and database = (select oid from pg_database where datname = current_database())`;

describe.skipIf(postgresMissing !== undefined || pgbouncerMissing !== undefined)('PgBouncer', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await sharedPostgres();
  });
  afterAll(() => server.stop());

  let template: Promise<string> | undefined;
  function migrated(): Promise<string> {
    template ??= (async () => {
      const url = await server.createDatabase();
      await (await openStore({ kind: 'postgres', url })).close();
      return url;
    })();
    return template;
  }

  async function connect(url: string) {
    const client = new Client(url);
    await client.connect();
    return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() });
  }

  describe.each(['transaction', 'session'] as const)('in %s mode', (mode) => {
    let pooler: Pooler;
    let direct: string;
    let url: string;
    beforeAll(async () => {
      direct = await server.createDatabase();
      pooler = await startPgbouncer(mode, direct);
      url = pooler.to(direct);
    });
    afterAll(() => pooler.stop());

    it('lets several servers start at once, again and again', async () => {
      await using observer = await connect(direct);
      for (let start = 0; start < 3; start += 1) {
        const stores = await Promise.all([1, 2, 3].map(() => openStore({ kind: 'postgres', url })));
        if (start === 0) {
          await stores[0]?.accounts.create(account(), someEntry());
          await stores[1]?.keys.create(apiKey({ id: 'key_1' }), 'hash', someEntry());
        }
        const rows = stores.map(() => ledgerRow({ billingId: createId('req') }));
        await Promise.all(stores.map(({ ledger }, index) => ledger.append(rows.slice(index, index + 1))));
        await Promise.all(stores.map(({ prepareMonths }) => prepareMonths(Date.now() + 40 * 86_400_000)));
        expect(await stores[2]?.keys.list({})).toHaveLength(1);
        expect((await observer.query('select count(*)::int as rows from ledger')).rows).toEqual([
          { rows: 3 * (start + 1) },
        ]);
        await Promise.all(stores.map((store) => store.close()));
        await expect.poll(async () => (await observer.query(ADVISORY_SQL)).rows).toEqual([{ locks: 0 }]);
      }
    });

    it('leaves no limit of a report on a connection that others use', async () => {
      const database = await openPostgres({ url, migrations: MIGRATIONS });
      await sql`select 1`.execute(database.report());
      await database.close();
      await using client = await connect(url);
      for (let turn = 0; turn < 5; turn += 1) {
        const { rows } = await client.query(
          "select current_setting('statement_timeout') as report, current_setting('lock_timeout') as lock",
        );
        expect(rows).toEqual([{ report: '0', lock: '0' }]);
      }
    });

    /** Their tables are copied. */
    const open = async () =>
      openStore({ kind: 'postgres', url: pooler.to(await server.createDatabase({ template: await migrated() })) });
    idempotencyContract(`PgBouncer in ${mode} mode`, open);
    reportsContract(`PgBouncer in ${mode} mode`, {
      open: (reportLimitMs) => openPostgres({ url, migrations: MIGRATIONS, reportLimitMs }),
      slow: sql`select pg_sleep(600)`,
      async running() {
        await using observer = await connect(direct);
        const { rows } = await observer.query(
          `select count(*)::int as running from pg_stat_activity
           where datname = current_database() and state = 'active' and query = 'select pg_sleep(600)'`,
        );
        return rows[0]?.running;
      },
    });
  });
});

describe.skipIf(postgresMissing !== undefined)('waits for locks', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await sharedPostgres();
  });
  afterAll(() => server.stop());

  async function holder(url: string, name: string) {
    const client = new Client({ connectionString: url, application_name: name });
    await client.connect();
    const { rows } = await client.query('select pg_backend_pid() as pid');
    return Object.assign(client, { pid: rows[0]?.pid as number, [Symbol.asyncDispose]: () => client.end() });
  }

  const logged = () => {
    const lines: { facts: object; text: string }[] = [];
    return { lines, log: { warn: (facts: object, text: string) => void lines.push({ facts, text }) } };
  };

  it('name who has the lock of migrations', async () => {
    const url = await server.createDatabase();
    await using other = await holder(url, 'other server');
    await other.query(`begin; select pg_advisory_xact_lock(${LOCKS.migration})`);
    const { lines, log } = logged();
    const opening = openStore({ kind: 'postgres', url }, { log });
    await expect.poll(() => lines.length).toBe(1);
    expect(lines[0]?.text).toMatch(
      new RegExp(
        `^the migration of the database waits for a lock, held by pid ${other.pid} \\(other server, .*since 20\\d\\d-.*Z\\)$`,
      ),
    );
    await other.query('rollback');
    await (await opening).close();
  });

  it('name who has the lock of a table, while a server starts and while it runs', async () => {
    const url = await server.createDatabase();
    await using other = await holder(url, 'psql');
    const { lines, log } = logged();
    const store = await openStore({ kind: 'postgres', url }, { log });
    await other.query('begin; lock table ledger, accounts');
    const appending = store.ledger.append([ledgerRow()]);
    await expect.poll(() => lines.length).toBeGreaterThan(0);
    expect(lines[0]).toEqual({
      facts: { pid: expect.any(Number), statement: expect.stringContaining('insert into ledger') },
      text: expect.stringContaining(`waits for a lock of pid ${other.pid} (psql, `),
    });
    await other.query('commit');
    await appending;
    await store.close();

    await other.query('begin; lock table accounts');
    const later = logged();
    const opening = openPostgres({
      url,
      migrations: {
        ...MIGRATIONS,
        '9000-later': {
          async up(db) {
            await sql`alter table accounts add column later integer`.execute(db);
          },
        },
      },
      log: later.log,
    });
    await expect.poll(() => later.lines.length).toBeGreaterThan(0);
    expect(later.lines[0]?.text).toContain(`pid ${other.pid} (psql, `);
    await other.query('commit');
    await (await opening).close();
  });

  it('are limited for partitions of the ledger, which are created later', async () => {
    const url = await server.createDatabase();
    await using other = await holder(url, 'psql');
    const { lines, log } = logged();
    const store = await openStore({ kind: 'postgres', url }, { log });
    await store.ledger.append([ledgerRow({ billingId: createId('req') })]);
    await other.query('begin; lock table ledger_rest');
    await store.prepareMonths(Date.now() + 70 * 86_400_000);
    expect(lines.at(-1)?.text).toContain(`held by pid ${other.pid} (psql, `);
    await other.query('commit');
    await store.close();
  });
});

it('settings that a pooler in transaction mode may lose are in the documentation', async () => {
  const page = await readFile(new URL('../../docs/scaling.md', import.meta.url), 'utf8');
  expect(page).toContain("alter role baobab set idle_in_transaction_session_timeout = '30s'");
  expect(page).toContain('alter role baobab set enable_bitmapscan = off');
});
