import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openPostgres } from '../../src/adapters/sql/postgres/database.ts';
import { MIGRATION_LOCK } from '../../src/adapters/sql/postgres/migrate.ts';
import { MIGRATIONS } from '../../src/adapters/sql/postgres/migrations/index.ts';
import { type PostgresServer, postgresMissing, startPostgres } from '../fixtures/postgres-server.ts';

const INDEXES_SQL = `select indexdef as definition from pg_indexes where schemaname = 'public' and tablename !~ '^ledger_' order by 1`;
const AUDIT_SQL = `select c.oid::int as id, c.relname as name, indisvalid as valid from pg_index join pg_class c on c.oid = indexrelid
  where indrelid = 'audit_log'::regclass order by 2`;
const WAITING_SQL =
  "select 1 from pg_stat_activity where query like 'create index concurrently%' and wait_event_type = 'Lock'";

const insertSql = (id: string) =>
  `insert into audit_log (id, time_ms, action, via, actor_id, target_kind, target_id, target_name, changes)
   values ('${id}', 1, 'key.changed', 'api', 'key_1', 'key', 'key_1', 'ci', '[]')`;

describe.skipIf(postgresMissing !== undefined)('migrations of PostgreSQL that build indexes', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  async function connect(url: string) {
    const client = new Client({ connectionString: url, query_timeout: 10_000 });
    await client.connect();
    return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() });
  }

  const migrate = async (url: string, before = '9999') => {
    const migrations = Object.fromEntries(Object.entries(MIGRATIONS).filter(([name]) => name < before));
    await (await openPostgres({ url, migrations })).close();
  };

  it('let servers write meanwhile, and others start', async () => {
    const url = await server.createDatabase();
    await migrate(url, '0014');
    await migrate(url, '0018');
    await using slow = await connect(url);
    await using other = await connect(url);
    await slow.query(`begin; ${insertSql('audit_1')}`);
    const migrated = Promise.all([migrate(url), migrate(url)]);
    await expect.poll(async () => (await other.query(WAITING_SQL)).rowCount).toBe(1);
    await other.query(insertSql('audit_2'));
    // As a server of an earlier version does when it starts.
    await other.query('select pg_advisory_lock($1)', [MIGRATION_LOCK]);
    await slow.query('commit');
    await migrated;
    await other.query('select pg_advisory_unlock($1)', [MIGRATION_LOCK]);

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
    await migrate(url, '0018');
    await using client = await connect(url);
    // A build that fails leaves its index behind, like one that is interrupted.
    await client.query(`${insertSql('audit_1')}; ${insertSql('audit_2')}`);
    const failed = client.query('create unique index concurrently audit_log_by_actor_id_new on audit_log (actor_id)');
    await expect(failed).rejects.toThrow('could not create unique index');
    await client.query('create index audit_log_by_action_new on audit_log (action, ((time_ms + 9)), id)');
    const left = (await client.query(AUDIT_SQL)).rows;
    expect(left.find(({ name }) => name === 'audit_log_by_actor_id_new')).toMatchObject({ valid: false });
    await migrate(url);

    const built = (await client.query(AUDIT_SQL)).rows;
    expect(built).toHaveLength(11);
    expect(built.every(({ name, valid }) => valid && !name.endsWith('_new'))).toBe(true);
    const finished = left.find(({ name }) => name === 'audit_log_by_action_new');
    expect(built.find(({ name }) => name === 'audit_log_by_action')).toMatchObject({ id: finished.id });

    await client.query("delete from kysely_migration where name = '0018-audit-indexes'");
    await migrate(url);
    expect((await client.query(AUDIT_SQL)).rows).toEqual(built);
  });

  it('wait for the build of a server that was killed, and keep its index', async () => {
    const url = await server.createDatabase();
    await migrate(url, '0014');
    await using slow = await connect(url);
    await using abandoned = await connect(url);
    await using other = await connect(url);
    await slow.query(`begin; insert into usage_quarters select 1, 1, 0, 1, 0, 0, 0, 0, 0`);
    const building = abandoned.query(
      'create index concurrently usage_quarters_by_period_new on usage_quarters (period)',
    );
    await expect.poll(async () => (await other.query(WAITING_SQL)).rowCount).toBe(1);
    const migrated = migrate(url);
    const asked = "select 1 from pg_stat_activity where query like '%pg_stat_progress%' and pid <> pg_backend_pid()";
    await expect.poll(async () => (await other.query(asked)).rowCount).toBe(1);
    const idOf = async (name: string) => (await other.query('select to_regclass($1)::oid::int as id', [name])).rows;
    const left = await idOf('usage_quarters_by_period_new');
    await slow.query('commit');
    await Promise.all([building, migrated]);
    expect(await idOf('usage_quarters_by_period')).toEqual(left);
  });
});
