import { type Compilable, Kysely, PostgresDialect, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Client, Pool, QueryResult } from 'pg';
import { StoreUnavailableError } from '../../../errors/store-unavailable.ts';
import type { SqlDatabase } from '../shared/database.ts';
import { migrate } from '../shared/migrator.ts';
import type { Tables } from '../shared/tables.ts';
import { connectChecked, createPool } from './connections.ts';
import { toStoreError } from './failures.ts';
import { createPartitions } from './partitions.ts';
import { forReading } from './read-pool.ts';
import { insertNewSql, rowsAsJson, storable } from './statements.ts';
import { runTransaction, type Statement, withRetries } from './transactions.ts';
import { refuseUnfinishedCopy } from './transfer-target.ts';

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database?sslmode=…` */
  url: string;
  migrations: Readonly<Record<string, Migration>>;
}

/** Connections of one process: together 14. Conflicts between transactions grow with the number of writers. */
const READ = { max: 6, query_timeout: 30_000 };
const WRITE = { max: 6, query_timeout: 30_000, pipeline: true };
const REPORT = { max: 2, query_timeout: 300_000 };
const MIGRATE = { max: 1 };

/** Any number that no other program uses for its advisory locks in this database. */
export const MIGRATION_LOCK = 7_402_617_801;

const compile = (statements: readonly Compilable[]): Statement[] =>
  statements.map((statement) => {
    const { sql, parameters } = statement.compile();
    return { text: sql, values: parameters.map(storable) };
  });

const toWritten = ({ rows, rowCount }: QueryResult) => ({ rows, changes: rowCount ?? 0 });

const over = <T>(pool: Pool): Kysely<T> => new Kysely<T>({ dialect: new PostgresDialect({ pool: forReading(pool) }) });

export async function openPostgres({ url, migrations }: PostgresOptions): Promise<SqlDatabase> {
  await migrateDatabase(url, migrations, refuseUnfinishedCopy);
  const [reads, writes, reports] = [createPool(url, READ), createPool(url, WRITE), createPool(url, REPORT)];
  return {
    read: over<Tables>(reads),
    report: over<Tables>(reports),
    byIndex: (table) => sql<never>`${sql.table(table)}`.as(table),
    write: async (statements) => (await runTransaction(writes, compile(statements), 0))?.map(toWritten) as never,
    writeIf: async (statements, { guards = 1 } = {}) =>
      (await runTransaction(writes, compile(statements), guards))?.map(toWritten) as never,
    // One statement is a transaction of its own, and it reads nothing that another one could change.
    insertNew: (target, rows) =>
      withRetries(async () => {
        const { columns, uniqueColumn } = target;
        const inserted = await writes.query(insertNewSql(target), [rowsAsJson(target, rows)]);
        const left = new Set(inserted.rows.map((row) => row[uniqueColumn]));
        const place = columns.indexOf(uniqueColumn);
        // The second of two equal ones is not new.
        return rows.map((row) => left.delete(row[place]));
      }),
    // PostgreSQL vacuums by itself.
    async purge() {},
    async prepareMonths(now) {
      const client = await withStoreErrors(reports.connect());
      try {
        await createPartitions(client, now);
        client.release();
      } catch (error) {
        client.release(true);
        throw toStoreError(error);
      }
    },
    async clockSkewMs() {
      const sentAt = Date.now();
      // Rounded down, as Date.now() is: a cast alone would round up, into the future.
      const text = 'select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now';
      const { rows } = await withRetries(() => reads.query<{ now: number }>(text));
      const now = rows[0]?.now ?? sentAt;
      // It was read at any time between the question and the answer.
      return Math.min(0, now - sentAt) + Math.max(0, now - Date.now());
    },
    async close() {
      await Promise.all([reads, writes, reports].map((pool) => pool.end()));
    },
  };
}

const withStoreErrors = <T>(work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    throw error instanceof StoreUnavailableError ? error : toStoreError(error);
  });

/** Waits for another process that is migrating. The lock ends with its connection, also when this process is killed. */
export async function migrateDatabase(
  url: string,
  migrations: PostgresOptions['migrations'],
  check?: (client: Client) => Promise<void>,
): Promise<void> {
  const lock = await connectChecked(url);
  const pool = createPool(url, MIGRATE);
  try {
    if (check !== undefined) await withStoreErrors(check(lock));
    await withStoreErrors(lock.query('select pg_advisory_lock($1)', [MIGRATION_LOCK]));
    await migrate(over(pool), migrations);
    await withStoreErrors(createPartitions(lock, Date.now()));
  } finally {
    await pool.end();
    await lock.end();
  }
}
