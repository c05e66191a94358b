import { PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fill, growthOf } from '../../bench/growth/fill.ts';
import { createPool } from '../../packages/server/src/adapters/sql/postgres/connections.ts';
import { openPostgres } from '../../packages/server/src/adapters/sql/postgres/database.ts';
import { MIGRATIONS } from '../../packages/server/src/adapters/sql/postgres/migrations/index.ts';
import type { SqlDatabase } from '../../packages/server/src/adapters/sql/shared/database.ts';
import { createSqlRepositories } from '../../packages/server/src/adapters/sql/shared/repositories.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';
import { type Asker, GROWING, type Grammar, type Recorded, recordHotCalls } from './hot-calls.ts';
import { account } from './key-fixtures.ts';

const GRAMMAR: Grammar = {
  createQueryCompiler: () => new PostgresQueryCompiler(),
  createAdapter: () => new PostgresAdapter(),
  createIntrospector: (db) => new PostgresIntrospector(db),
};

/**
 * Without statistics, PostgreSQL expects one of 40 000 files to be of an account and not discarded: two of these, fewer than a page. Of
 * fewer keys it would rather sort all than look up a page in an index.
 */
const GROWN = { ...growthOf(0.01), ownFiles: 100_000, keys: 20_000 };
const TINY = growthOf(0.000_01);
/** Reading all of a table that is smaller is no mistake. */
const LARGE_PAGES = 50;

/** One account has most files, and the other one as much as everybody. */
const ASKERS: Record<string, Asker> = {
  owner: { accountId: account().id, keyId: 'key_1', model: 'a/b' },
  other: { accountId: 'acct_100000007', keyId: 'key_100000007', model: 'provider/model-7' },
};

interface Plan {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Index Cond'?: string;
  Plans?: Plan[];
}

const stepsOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(stepsOf)];

/** Reads what belongs to others, and grows with them. */
const OF_ALL =
  /^(usage_\w+_by_period|request_log_by_time|request_log_failed_by_time|audit_log_by_time|\w+_by_creation)$/;
/** Of one row. Without it, the rows of all accounts are read in the order of their ids. */
const isLookUp = (step: Plan): boolean => /\(id = /.test(step['Index Cond'] ?? '');
/** Rows of a table in an order, without sums. */
const isPage = ({ sql }: Recorded): boolean => /^select .* order by .* limit \$\d+$/.test(sql) && !/group by/.test(sql);
/** Sorts the rows of a table, and not those of a page. */
const sortsMuch = (step: Plan, large: ReadonlySet<string>): boolean => {
  if (step['Node Type'] !== 'Sort') return false;
  const below = stepsOf(step);
  return (
    below.some((each) => large.has(each['Relation Name'] ?? '')) && below.every((each) => each['Node Type'] !== 'Limit')
  );
};
/** The sums of all accounts, and 2 000 requests at once: that is much of so few. */
const READS_MUCH = /^(usage of all accounts|old requests|requests beyond a limit)/;

describe.skipIf(postgresMissing)('plans of PostgreSQL', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await sharedPostgres();
  }, 60_000);
  afterAll(() => server?.stop());

  async function empty(pool: Pool): Promise<void> {
    await pool.query(`truncate ${[...GROWING, 'file_attachments', 'batch_slices'].join(', ')}`);
  }

  /** PostgreSQL would count the rows by itself at any time. */
  async function keepStatistics(pool: Pool): Promise<void> {
    const { rows } = await pool.query(
      "select relname from pg_class where relkind = 'r' and relnamespace = current_schema()::regnamespace",
    );
    for (const { relname } of rows) await pool.query(`alter table ${relname} set (autovacuum_enabled = off)`);
  }

  async function largeTables(pool: Pool): Promise<Set<string>> {
    const { rows } = await pool.query(
      "select relname from pg_class where relkind = 'r' and pg_relation_size(oid) > $1 * current_setting('block_size')::int",
      [LARGE_PAGES],
    );
    const names = rows.map(({ relname }) => String(relname));
    return new Set(names.filter((name) => GROWING.some((table) => name === table || name.startsWith('ledger_'))));
  }

  function problemsOf(plan: Plan, asked: string, statement: Recorded, large: ReadonlySet<string>): string[] {
    const steps = stepsOf(plan);
    const whole = steps
      .filter((step) => step['Node Type'] === 'Seq Scan' && large.has(step['Relation Name'] ?? ''))
      .map((step) => `reads all of ${step['Relation Name']}`);
    const ofOthers = steps
      .filter((step) => statement.sql.includes('"account_id" = $') && OF_ALL.test(step['Index Name'] ?? ''))
      .map((step) => `reads ${step['Index Name']}`);
    const byKey = steps
      .filter((step) => isPage(statement) && /_pkey$/.test(step['Index Name'] ?? '') && !isLookUp(step))
      .filter(() => /"account_id" =/.test(statement.sql))
      .map((step) => `reads a page of ${step['Index Name']}`);
    const sorted = isPage(statement) ? steps.filter((step) => sortsMuch(step, large)).map(() => 'sorts a page') : [];
    return [...new Set([...whole, ...ofOthers, ...byKey, ...sorted])].map((problem) => `${asked}: ${problem}`);
  }

  /** What the plans of all calls do wrong. */
  async function problemsOfCalls(pool: Pool, database: SqlDatabase): Promise<string[]> {
    const large = await largeTables(pool);
    expect([...large]).toEqual(expect.arrayContaining(['files', 'request_log', 'ledger_series', 'usage_hours']));
    const problems = new Set<string>();
    for (const asker of Object.values(ASKERS)) {
      for (const [asked, recorded] of await recordHotCalls(database, GRAMMAR, asker)) {
        expect(recorded.length, asked).toBeGreaterThan(1);
        if (READS_MUCH.test(asked)) continue;
        for (const statement of new Map(recorded.map((each) => [each.sql, each])).values()) {
          const { rows } = await pool.query(`explain (format json) ${statement.sql}`, [...statement.parameters]);
          const plan: Plan = rows[0]['QUERY PLAN'][0].Plan;
          for (const problem of problemsOf(plan, asked, statement, large)) problems.add(problem);
        }
      }
    }
    return [...problems];
  }

  /** A store whose statistics stay as they are. */
  async function open(url: string) {
    const database = await openPostgres({ url, migrations: MIGRATIONS });
    const pool = createPool(() => url, { max: 1 });
    await keepStatistics(pool);
    const { accounts } = createSqlRepositories(database);
    await accounts.create(account(), someEntry());
    return {
      ...{ database, pool, accounts },
      async [Symbol.asyncDispose]() {
        await pool.end();
        await database.close();
      },
    };
  }

  it('read no growing table as a whole, without statistics and with fresh ones', { timeout: 120_000 }, async () => {
    const url = await server.createDatabase();
    await using store = await open(url);
    await fill({ kind: 'postgres', url }, GROWN, () => {});
    expect(await problemsOfCalls(store.pool, store.database)).toEqual([]);
    await store.pool.query('analyze');
    expect(await problemsOfCalls(store.pool, store.database)).toEqual([]);
  });

  it('read no growing table as a whole, with the statistics of a tiny store', { timeout: 120_000 }, async () => {
    const url = await server.createDatabase();
    await using store = await open(url);
    await fill({ kind: 'postgres', url }, TINY, () => {});
    await store.pool.query('analyze');
    await empty(store.pool);
    await store.accounts.create(account(), someEntry());
    await fill({ kind: 'postgres', url }, GROWN, () => {});
    expect(await problemsOfCalls(store.pool, store.database)).toEqual([]);
  });
});
