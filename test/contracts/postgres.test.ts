import { randomUUID } from 'node:crypto';
import { mkdtemp, mkdtempDisposable, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { StoreUnavailableError } from '../../packages/core/src/errors/store-unavailable.ts';
import { DuplicateError } from '../../packages/core/src/ports/store-errors.ts';
import { createPool } from '../../packages/server/src/adapters/sql/postgres/connections.ts';
import { openPostgres } from '../../packages/server/src/adapters/sql/postgres/database.ts';
import { MIGRATIONS } from '../../packages/server/src/adapters/sql/postgres/migrations/index.ts';
import { addMeasure } from '../../packages/server/src/adapters/sql/postgres/usage-sums.ts';
import { auditListQuery } from '../../packages/server/src/adapters/sql/shared/audit/audit-log.ts';
import { INITIAL_MEASURES, runAll } from '../../packages/server/src/adapters/sql/shared/initial-tables.ts';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { SecretFiles } from '../../packages/server/src/compose/secret-files.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { PASSWORD, type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';
import { accessChangesContract } from './access-changes.ts';
import { auditLogContract } from './audit-log.ts';
import { backgroundRunsContract } from './background-runs.ts';
import { batchSlicesContract } from './batch-slices.ts';
import { batchesContract } from './batches.ts';
import { filesContract } from './files.ts';
import { idempotencyContract } from './idempotency.ts';
import { jobTurnsContract } from './job-turns.ts';
import { account, apiKey } from './key-fixtures.ts';
import { ledgerContract, ledgerRow } from './ledger.ts';
import { repositoriesContract } from './repositories.ts';
import { requestLogContract } from './request-log.ts';
import { requestTextsContract } from './request-texts.ts';
import { responsesContract } from './responses.ts';
import { serversContract } from './servers.ts';
import { sessionsContract } from './sessions.ts';
import { SCAN_SQL, usageSumsContract } from './usage-sums.ts';

const END_CONNECTIONS =
  'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()';

/** `pg` gives a bigint as text. */
const numbersOf = (row: Record<string, string | number>) =>
  Object.fromEntries(
    Object.entries(row)
      .filter(([name]) => /_(ms|tokens|seconds|usd)$/.test(name))
      .map(([name, value]) => [name, Number(value)]),
  );

describe.skipIf(postgresMissing !== undefined)('postgres', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await sharedPostgres();
  });
  afterAll(() => server.stop());

  const openAt = (url: string) => openStore({ kind: 'postgres', url });
  /** An empty store. Its tables are copied, which takes less time than their migrations. */
  const open = async () => openAt(await server.createDatabase({ template: await migrated() }));
  let template: Promise<string> | undefined;
  function migrated(): Promise<string> {
    template ??= (async () => {
      const url = await server.createDatabase();
      await (await openAt(url)).close();
      return url;
    })();
    return template;
  }

  async function query(url: string, sql: string) {
    const client = new Client(url);
    await client.connect();
    const { rows } = await client.query(sql).finally(() => client.end());
    return rows;
  }

  repositoriesContract('postgres', open);
  ledgerContract('postgres', open);
  idempotencyContract('postgres', open);
  sessionsContract('postgres', open);
  jobTurnsContract('postgres', open);
  serversContract('postgres', open);
  requestLogContract('postgres', open);
  requestTextsContract('postgres', open);
  auditLogContract('postgres', open);
  filesContract('postgres', open);
  batchesContract('postgres', open);
  batchSlicesContract('postgres', open);
  responsesContract('postgres', open);
  backgroundRunsContract('postgres', open);
  usageSumsContract('postgres', async () => {
    const url = await server.createDatabase();
    const stores = await Promise.all([openAt(url), openAt(url), openAt(url)]);
    return {
      stores,
      scan: async () => (await query(url, SCAN_SQL)).map((row) => ({ ...row, ...numbersOf(row) })),
      async interrupt() {
        await query(url, END_CONNECTIONS);
      },
      async close() {
        await Promise.all(stores.map((store) => store.close()));
      },
    };
  });

  accessChangesContract('postgres', async () => {
    const url = await server.createDatabase();
    const stores = [await openAt(url), await openAt(url)] as const;
    return {
      stores,
      async run(statements) {
        await query(url, statements);
      },
      async close() {
        await Promise.all(stores.map((store) => store.close()));
      },
    };
  });

  it('lists the audit log without reading what the filter refuses, whatever the statistics say', async () => {
    const url = await server.createDatabase({ template: await migrated() });
    // Each value is frequent, so that PostgreSQL expects to find many soon, but they never come together, or not for long.
    await query(
      url,
      `insert into audit_log (id, time_ms, action, via, actor_id, target_kind, target_id, target_name, account_id, changes)
       select 'audit_' || n, n, 'key.changed', 'api', case when n < 6000 then 'key_m_early' when n % 2 = 0 then 'key_a_even' else 'key_z_odd' end,
         'key', 'key_1', 'ci', case when n % 2 = 0 then 'acct_even' else 'acct_odd' end, '[]'
       from generate_series(1, 20000) as n; analyze audit_log`,
    );
    const database = await openPostgres({ url, migrations: MIGRATIONS });
    const client = new Client(url);
    await client.connect();
    // As for a table that is too large to be read or kept in memory.
    await client.query('set random_page_cost = 100');
    await client.query('set enable_seqscan = off; set enable_bitmapscan = off');
    const cases = [
      [{}, 100],
      [{ actorId: 'key_m_early' }, 100],
      [{ actorId: 'key_a_even', accountId: 'acct_odd' }, 0],
      [{ actorId: 'key_a_even', accountId: 'acct_even', start: 19_991, end: 19_997 }, 3],
      [{ actorId: 'key_a_even', accountId: 'acct_odd', start: 10_000, end: 18_000 }, 0],
      [{ actorId: 'key_a_even', accountId: 'acct_odd', action: 'key.changed' }, 0],
      [{ accountId: 'acct_odd', action: 'account.deleted' }, 0],
      [{ targetId: 'key_1' }, 100],
    ] as const;
    for (const [filter, found] of cases) {
      for (const before of [undefined, { time: 19_999, id: 'audit_19999' }]) {
        const list = auditListQuery(database.read, database, filter, { limit: 100, before });
        const { sql, parameters } = list.compile();
        const { rows } = await client.query(`explain (analyze) ${sql}`, [...parameters]);
        const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
        const counts = [...plan.matchAll(/(?:Rows Removed by Filter: |actual time=\S+ rows=)(\d+)/g)];
        // Of all that was read, found or passed over.
        expect(Math.max(...counts.map(([, count]) => Number(count))), plan).toBeLessThanOrEqual(100);
        expect(await list.execute()).toHaveLength(found);
      }
    }
    await client.end();
    await database.close();
  });

  it('lets several processes open a new database at once', async () => {
    const url = await server.createDatabase();
    const stores = await Promise.all(Array.from({ length: 4 }, () => openAt(url)));
    expect(await stores[3]?.accounts.list()).toEqual([]);
    await Promise.all(stores.map((store) => store.close()));
    expect(await query(url, 'select name from kysely_migration order by name')).toEqual(
      Object.keys(MIGRATIONS).map((name) => ({ name })),
    );
  });

  it('refuses a database of a newer version with a readable message', async () => {
    const url = await server.createDatabase();
    await (await openAt(url)).close();
    await query(url, "insert into kysely_migration (name, timestamp) values ('9999-future', '2030-01-01')");
    await expect(openAt(url)).rejects.toThrow(/newer version of Baobab \(it has '9999-future'\)/);
  });

  it('refuses a database from before the first release, and leaves it as it was', async () => {
    const url = await server.createDatabase();
    await query(url, 'create table kysely_migration (name varchar(255) primary key, timestamp varchar(255) not null)');
    await query(
      url,
      "insert into kysely_migration values ('0001-initial', '2026-10-01'), ('0002-sessions', '2026-10-02')",
    );
    await expect(openAt(url)).rejects.toThrow(/development version of Baobab from before its first release/);
    expect(await query(url, "select relname from pg_class where relname = 'accounts'")).toEqual([]);
  });

  it('takes a new measure by one line of a migration, and adds it up', async () => {
    const url = await server.createDatabase({ template: await migrated() });
    const store = await openAt(url);
    const [first, second] = [ledgerRow({ time: 3_600_000 }), ledgerRow({ time: 3_600_001 })];
    await store.ledger.append([first]);
    const added = {
      up: (db: import('kysely').Kysely<unknown>) => runAll(db, addMeasure(INITIAL_MEASURES, 'characters')),
    };
    await (await openPostgres({ url, migrations: { ...MIGRATIONS, '9999-characters': added } })).close();
    // As a server of the version before it.
    await store.ledger.append([second]);
    await store.close();
    await query(
      url,
      `insert into ledger select (jsonb_populate_record(ledger, '{"billing_id": "bill_3", "characters": 70}')).* from ledger
       where billing_id = '${first.billingId}'`,
    );
    for (const table of ['usage_days', 'usage_hours', 'usage_quarters']) {
      const sums = `select sum(requests)::int as requests, sum(characters)::int as characters from ${table}`;
      expect(await query(url, sums)).toEqual([{ requests: 3, characters: 70 }]);
    }
  });

  it('rolls back a failed migration', async () => {
    const url = await server.createDatabase();
    const broken = {
      async up(db: import('kysely').Kysely<unknown>) {
        await db.schema.createTable('half').addColumn('id', 'integer').execute();
        throw new Error('syntax error');
      },
    };
    await expect(openPostgres({ url, migrations: { '0001-broken': broken } })).rejects.toThrow(
      /could not be migrated \('0001-broken'\): syntax error/,
    );
    expect(await query(url, "select relname from pg_class where relname = 'half'")).toEqual([]);
  });

  it('writes of many processes at once all succeed, and a failed one leaves the others alone', async () => {
    const url = await server.createDatabase();
    const stores = await Promise.all([openAt(url), openAt(url)]);
    await stores[0]?.accounts.create(account(), someEntry());
    const created = await Promise.allSettled(
      Array.from({ length: 60 }, (_, index) =>
        stores[index % 2]?.keys.create(apiKey({ id: `key_${index % 40}` }), `hash-${index}`, someEntry()),
      ),
    );
    const failures = created.filter((each) => each.status === 'rejected');
    expect(failures).toHaveLength(20);
    for (const { reason } of failures) expect(reason).toBeInstanceOf(DuplicateError);
    expect(await stores[1]?.keys.list({})).toHaveLength(40);
    // One for the account and one for each key.
    expect(await stores[1]?.revisions.current()).toMatchObject({ keys: 41 });
    await Promise.all(stores.map((store) => store.close()));
  });

  it('gives a row to the first of many processes that append it, in any order', async () => {
    const url = await server.createDatabase();
    const stores = await Promise.all([openAt(url), openAt(url), openAt(url)]);
    const rows = Array.from({ length: 300 }, (_, index) => ledgerRow({ model: `acme/${index % 7}` }));
    const answers = await Promise.all(
      stores.flatMap(({ ledger }) => [
        ledger.append(rows),
        ledger.append(rows.toReversed()).then((each) => each.toReversed()),
      ]),
    );
    for (const index of rows.keys()) expect(answers.filter((each) => each[index])).toHaveLength(1);
    expect(await query(url, 'select count(*)::int as rows from ledger')).toEqual([{ rows: 300 }]);
    await Promise.all(stores.map((store) => store.close()));
  });

  it('refuses an integer that a number cannot hold instead of rounding it', async () => {
    const url = await server.createDatabase();
    const store = await openAt(url);
    await query(url, "insert into revisions (topic, value) values ('keys', 9007199254740993)");
    await expect(store.revisions.current()).rejects.toThrow('9007199254740993');
    await query(url, "update revisions set value = 9007199254740991 where topic = 'keys'");
    expect(await store.revisions.current()).toMatchObject({ keys: 9_007_199_254_740_991 });
    await store.close();
  });

  it('tells the time of PostgreSQL', async () => {
    const store = await open();
    const before = Date.now();
    const time = await store.time();
    expect(time).toBeGreaterThanOrEqual(before);
    expect(time).toBeLessThanOrEqual(Date.now());
    await store.close();
  });

  it('lets go of locks when the machine that holds them is gone', async () => {
    const poolUrl = await server.createDatabase();
    const pool = createPool(() => poolUrl, { max: 1, pipeline: true });
    const { rows } = await pool.query(
      `select name, setting from pg_settings where name like 'tcp_keepalives_%' or name = 'idle_in_transaction_session_timeout' order by 1`,
    );
    await pool.end();
    expect(rows).toEqual([
      { name: 'idle_in_transaction_session_timeout', setting: '30000' },
      { name: 'tcp_keepalives_count', setting: '3' },
      { name: 'tcp_keepalives_idle', setting: '15' },
      { name: 'tcp_keepalives_interval', setting: '5' },
    ]);
  });

  it('says that PostgreSQL is away when its connections close while the store is opened', async () => {
    const url = await server.createDatabase();
    await (await openAt(url)).close();
    for (let round = 0; round < 10; round += 1) {
      let isOver = false;
      const opening = openAt(url)
        .then((store) => store.close())
        .finally(() => {
          isOver = true;
        });
      const cut = async () => {
        while (!isOver) await query(url, END_CONNECTIONS);
      };
      const [opened] = await Promise.allSettled([opening, cut()]);
      if (opened.status === 'rejected') expect(opened.reason).toBeInstanceOf(StoreUnavailableError);
    }
  });

  it('reads its address again for new connections, so that passwords can be rotated', async () => {
    const url = new URL(await server.createDatabase());
    const role = `rotated_${randomUUID().replaceAll('-', '')}`;
    const admin = url.href;
    await query(
      admin,
      `create role ${role} login password 'first'; alter database ${url.pathname.slice(1)} owner to ${role}; grant all on schema public to ${role}`,
    );
    url.username = role;
    url.password = 'first';
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-address-'));
    const file = join(directory.path, 'store');
    await writeFile(file, `${url.href}\n`);
    const lines: object[] = [];
    const log = (facts: object) => void lines.push(facts);
    const logger = { debug: log, info: log, warn: log, error: log };
    const secrets = new SecretFiles({ known: { add() {} }, logger });
    const address = secrets.hold({ key: 'store', value: url.href, file });
    const store = await openStore({ kind: 'postgres', url: address ?? '' });
    await store.accounts.create(account(), someEntry());
    await query(admin, `alter role ${role} password 'second'`);
    await query(admin, END_CONNECTIONS);
    await expect.poll(() => store.health.problem()).toBe('the database refuses the password or the user');
    url.password = 'second';
    await writeFile(file, `${url.href}\n`);
    await expect.poll(() => store.health.problem()).toBeUndefined();
    expect(await store.accounts.get('acct_1')).toEqual(account());
    expect(lines).toEqual([{ setting: 'store_file', file }]);
    await store.close();
    await query(admin, `reassign owned by ${role} to current_user; drop owned by ${role}; drop role ${role}`);
  });

  it('works again after PostgreSQL has closed its connections', async () => {
    const url = await server.createDatabase();
    const store = await openAt(url);
    await store.accounts.create(account(), someEntry());
    await query(url, END_CONNECTIONS);
    await expect.poll(() => store.accounts.get('acct_1').catch(() => undefined)).toEqual(account());
    await expect.poll(() => store.ledger.append([ledgerRow()]).catch(() => undefined)).toEqual([true]);
    await store.close();
    await expect(store.ledger.append([ledgerRow()])).rejects.toBeInstanceOf(StoreUnavailableError);
  });

  // How a given server authenticates and encrypts is not known.
  describe.skipIf(process.env.BAOBAB_TEST_POSTGRES_URL !== undefined)('that cannot be used', () => {
    const changed = async (change: (url: URL) => void): Promise<string> => {
      const url = new URL(await server.createDatabase());
      change(url);
      return url.href;
    };

    it.each<[string, (url: URL) => void, RegExp]>([
      [
        'unreachable',
        (url) => (url.port = '1'),
        /PostgreSQL at [\w.]+:1 cannot be reached: the connection was refused/,
      ],
      [
        'of an unknown host',
        (url) => (url.hostname = 'db.invalid'),
        /cannot be reached: the host name could not be resolved/,
      ],
      [
        'with a wrong password',
        (url) => (url.password = 'wrong'),
        /refuses user '\w+': the password in store is wrong/,
      ],
      ['without its database', (url) => (url.pathname = '/absent'), /has no database 'absent'\. Create it: createdb/],
      ['without TLS', (url) => url.searchParams.set('sslmode', 'require'), /does not support SSL connections/],
      [
        'that may lose commits',
        (url) => url.searchParams.set('options', '-c synchronous_commit=off'),
        /synchronous_commit is off/,
      ],
    ])('%s: says why, without the password', async (_, change, message) => {
      const opened = openAt(await changed(change));
      await expect(opened).rejects.toThrow(message);
      await expect(opened).rejects.toBeInstanceOf(StoreUnavailableError);
      await expect(opened).rejects.not.toThrow(PASSWORD);
    });

    it('because of its encoding: says how to create it', async () => {
      const url = new URL(await server.createDatabase());
      await query(
        url.href,
        "create database latin template template0 encoding 'LATIN1' locale_provider libc locale 'C'",
      );
      url.pathname = '/latin';
      await expect(openAt(url.href)).rejects.toThrow(/'latin' has the encoding LATIN1\. Create it with UTF8/);
    });
  });

  it('has the tables and columns that SQLite has, and sorts every text by bytes', async () => {
    const url = await server.createDatabase();
    await (await openAt(url)).close();
    const columns = await query(
      url,
      `select table_name || '.' || column_name as name, data_type as type, collation_name as collation, is_nullable = 'YES' as nullable
       from information_schema.columns where table_schema = 'public' and table_name not like 'kysely%'
         and not (select relispartition from pg_class where oid = table_name::regclass)`,
    );
    const directory = await mkdtemp(join(tmpdir(), 'baobab-columns-'));
    const path = join(directory, 'baobab.db');
    await (await openStore({ kind: 'sqlite', path })).close();
    const raw = new DatabaseSync(path);
    const expected = raw
      .prepare(
        `select t.name || '.' || c.name as name, c."notnull" = 0 as nullable from sqlite_schema t join pragma_table_info(t.name) c
         where t.type = 'table' and t.name not like 'kysely%' and t.name not like 'sqlite%'
           -- Tells SQLite's trigger, which runs for each row, which rows the writer has added to the sums itself.
           and not (t.name = 'ledger' and c.name = 'is_summed')`,
      )
      .all();
    raw.close();
    await rm(directory, { recursive: true });
    const named = (list: { name?: unknown; nullable?: unknown }[]) =>
      list.map(({ name, nullable }) => `${name} ${nullable ? 'or null' : ''}`).toSorted();
    expect(named(columns)).toEqual(named(expected));
    expect(columns.filter(({ type, collation }) => type === 'text' && collation !== 'C')).toEqual([]);
  });
});
