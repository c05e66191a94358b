import { Kysely, PostgresDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import { Client, Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openPostgres } from '../../packages/server/src/adapters/sql/postgres/database.ts';
import { buildIndex } from '../../packages/server/src/adapters/sql/postgres/index-builds.ts';
import { LOCKS } from '../../packages/server/src/adapters/sql/postgres/locks.ts';
import { MIGRATIONS } from '../../packages/server/src/adapters/sql/postgres/migrations/index.ts';
import type { SchemaMigration } from '../../packages/server/src/adapters/sql/shared/migrator.ts';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';

/** Migrations as later releases will have them. */
const LATER: Readonly<Record<string, SchemaMigration>> = {
  ...MIGRATIONS,
  '0002-notes': { up: (db) => db.schema.createTable('notes').addColumn('id', 'integer').execute() },
  '0003-quarters-by-slot': {
    concurrently: true,
    up: (db) => buildIndex(db, { name: 'usage_quarters_by_slot', table: 'usage_quarters', columns: 'slot' }),
  },
  '0004-audit-indexes': {
    concurrently: true,
    async up(db) {
      for (const column of ['actor_id', 'action', 'target_id']) {
        await buildIndex(db, { name: `audit_log_by_${column}`, table: 'audit_log', columns: `${column}, id` });
      }
    },
  },
};

const INDEXES_SQL = `select indexdef as definition from pg_indexes where schemaname = 'public' and tablename !~ '^ledger_' order by 1`;
const AUDIT_SQL = `select c.oid::int as id, c.relname as name, indisvalid as valid from pg_index join pg_class c on c.oid = indexrelid
  where indrelid = 'audit_log'::regclass order by 2`;
const WAITING_SQL =
  "select 1 from pg_stat_activity where datname = current_database() and query like 'create index concurrently%' and wait_event_type = 'Lock'";

const insertSql = (id: string) =>
  `insert into audit_log (id, time_ms, action, via, actor_id, target_kind, target_id, target_name, changes)
   values ('${id}', 1, 'key.changed', 'api', 'key_1', 'key', 'key_1', 'ci', '[]')`;

describe.skipIf(postgresMissing !== undefined)('migrations of PostgreSQL that build indexes', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await sharedPostgres();
  });
  afterAll(() => server.stop());

  async function connect(url: string) {
    const client = new Client({ connectionString: url, query_timeout: 10_000 });
    await client.connect();
    return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() });
  }

  const migrate = async (url: string, before = '9999') => {
    const migrations = Object.fromEntries(Object.entries(LATER).filter(([name]) => name < before));
    await (await openPostgres({ url, migrations })).close();
  };

  /** As a server of an earlier version, which has the lock already. */
  async function migrateAsBefore(url: string) {
    const dialect = new PostgresDialect({ pool: new Pool({ connectionString: url, max: 1 }) });
    await using db = new Kysely<unknown>({ dialect });
    const migrations = Object.fromEntries(Object.entries(LATER).filter(([name]) => name < '0004'));
    const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } });
    const { error } = await migrator.migrateToLatest();
    if (error !== undefined) throw error;
  }

  describe.each([
    ['an empty database', '0000'],
    ['a database of an earlier version', '0002'],
    ['a database whose next index is built concurrently', '0003'],
  ])('%s', (_what, before) => {
    async function prepared() {
      const url = await server.createDatabase();
      if (before !== '0000') await migrate(url, before);
      return url;
    }

    async function expectMigrated(url: string) {
      await using client = await connect(url);
      const { rows } = await client.query('select name from kysely_migration order by name');
      expect(rows.map(({ name }) => name)).toEqual(Object.keys(LATER));
      const fresh = await server.createDatabase();
      await migrate(fresh);
      await using clean = await connect(fresh);
      expect((await client.query(INDEXES_SQL)).rows).toEqual((await clean.query(INDEXES_SQL)).rows);
    }

    it('is migrated once by servers that start at the same time', async () => {
      const url = await prepared();
      await Promise.all([migrate(url), migrate(url), migrate(url)]);
      await expectMigrated(url);
    });

    it('is migrated further after an earlier version that was at it', async () => {
      const url = await prepared();
      await using earlier = await connect(url);
      await earlier.query('select pg_advisory_lock($1)', [LOCKS.migration]);
      const migrated = migrate(url);
      const waiting = `select 1 from pg_stat_activity where datname = current_database()
        and (query like '%try_advisory_xact_lock%' or query = 'rollback') and pid <> pg_backend_pid()`;
      await expect.poll(async () => (await earlier.query(waiting)).rowCount).toBe(1);
      await migrateAsBefore(url);
      await earlier.query('select pg_advisory_unlock($1)', [LOCKS.migration]);
      await migrated;
      await expectMigrated(url);
    });
  });

  it('let servers write meanwhile', async () => {
    const url = await server.createDatabase();
    await migrate(url, '0002');
    await migrate(url, '0004');
    await using slow = await connect(url);
    await using other = await connect(url);
    await slow.query(`begin; ${insertSql('audit_1')}`);
    const migrated = Promise.all([migrate(url), migrate(url)]);
    await expect.poll(async () => (await other.query(WAITING_SQL)).rowCount).toBe(1);
    await other.query(insertSql('audit_2'));
    await slow.query('commit');
    await migrated;

    const fresh = await server.createDatabase();
    await migrate(fresh);
    await using clean = await connect(fresh);
    expect((await other.query(INDEXES_SQL)).rows).toEqual((await clean.query(INDEXES_SQL)).rows);
    const { rows } = await other.query(AUDIT_SQL);
    expect(rows).toHaveLength(11);
    expect(rows.every(({ valid }) => valid)).toBe(true);
    expect((await other.query('select id from audit_log order by id')).rows).toEqual([
      { id: 'audit_1' },
      { id: 'audit_2' },
    ]);
  });

  it('go on after a crash: finished indexes are kept, and half built ones are built again', async () => {
    const url = await server.createDatabase();
    await migrate(url, '0004');
    await using client = await connect(url);
    // A build that fails leaves its index behind, like one that is interrupted.
    await client.query(`${insertSql('audit_1')}; ${insertSql('audit_2')}`);
    const failed = client.query('create unique index concurrently audit_log_by_actor_id_new on audit_log (actor_id)');
    await expect(failed).rejects.toThrow('could not create unique index');
    await client.query('create index audit_log_by_action_new on audit_log (action, id)');
    const left = (await client.query(AUDIT_SQL)).rows;
    expect(left.find(({ name }) => name === 'audit_log_by_actor_id_new')).toMatchObject({ valid: false });
    await migrate(url);

    const built = (await client.query(AUDIT_SQL)).rows;
    expect(built).toHaveLength(11);
    expect(built.every(({ name, valid }) => valid && !name.endsWith('_new'))).toBe(true);
    const finished = left.find(({ name }) => name === 'audit_log_by_action_new');
    expect(built.find(({ name }) => name === 'audit_log_by_action')).toMatchObject({ id: finished.id });

    await client.query("delete from kysely_migration where name = '0004-audit-indexes'");
    await migrate(url);
    expect((await client.query(AUDIT_SQL)).rows).toEqual(built);
  });

  it('wait for the build of a server that was killed, and keep its index', async () => {
    const url = await server.createDatabase();
    await migrate(url, '0003');
    await using slow = await connect(url);
    await using abandoned = await connect(url);
    await using other = await connect(url);
    await slow.query(`begin; insert into usage_quarters select 1, 1, 0, 1, 0, 0, 0, 0, 0`);
    const building = abandoned.query('create index concurrently usage_quarters_by_slot_new on usage_quarters (slot)');
    await expect.poll(async () => (await other.query(WAITING_SQL)).rowCount).toBe(1);
    const migrated = migrate(url);
    const asked =
      "select 1 from pg_stat_activity where datname = current_database() and query like '%pg_stat_progress%' and pid <> pg_backend_pid()";
    await expect.poll(async () => (await other.query(asked)).rowCount).toBe(1);
    const idOf = async (name: string) => (await other.query('select to_regclass($1)::oid::int as id', [name])).rows;
    const left = await idOf('usage_quarters_by_slot_new');
    await slow.query('commit');
    await Promise.all([building, migrated]);
    expect(await idOf('usage_quarters_by_slot')).toEqual(left);
  });
});
