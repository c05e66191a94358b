import { type Compilable, Kysely, PostgresDialect, sql } from 'kysely';
import type { Pool, QueryResult } from 'pg';
import { answersTo, givenJson, type PlainValue, type SqlDatabase } from '../shared/database.ts';
import type { SchemaMigration } from '../shared/migrator.ts';
import type { Tables } from '../shared/tables.ts';
import { createPool } from './connections.ts';
import { toStoreError, withStoreErrors } from './failures.ts';
import { migrateDatabase } from './migrate.ts';
import { createPartitions } from './partitions.ts';
import { forReading } from './read-pool.ts';
import { insertNewSql, rowsAsJson, storable } from './statements.ts';
import { runTransaction, type Statement, withRetries } from './transactions.ts';
import { refuseUnfinishedCopy } from './transfer-target.ts';

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database?sslmode=…` */
  url: string;
  migrations: Readonly<Record<string, SchemaMigration>>;
}

/** Connections of one process: together 14. Conflicts between transactions grow with the number of writers. */
const READ = { max: 6, query_timeout: 30_000 };
const WRITE = { max: 6, query_timeout: 30_000, pipeline: true };
const REPORT = { max: 2, query_timeout: 300_000 };

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
  // One statement is a transaction of its own, and it reads nothing that another one could change.
  const insertNew: SqlDatabase['insertNew'] = (target, rows) =>
    withRetries(async () => {
      const { columns, uniqueColumn } = target;
      const inserted = await writes.query(insertNewSql(target), [rowsAsJson(target, rows)]);
      const left = new Set(inserted.rows.map((row) => row[uniqueColumn]));
      const place = columns.indexOf(uniqueColumn);
      // The second of two equal ones is not new.
      return rows.map((row) => left.delete(row[place]));
    });

  const run = async (statements: readonly Compilable[], { guards = 0, byRowLocks = false }) =>
    (await runTransaction(writes, compile(statements), { guards, byRowLocks }))?.map(toWritten);

  return {
    read: over<Tables>(reads),
    report: over<Tables>(reports),
    byIndex: (table) => sql<never>`${sql.table(table)}`.as(table),
    given(alias, columns, rows) {
      const types = Object.entries(columns).map(([name, type]) => sql`${sql.ref(name)} ${sql.raw(type)}`);
      return sql<never>`(select * from json_to_recordset(${givenJson(rows)}::json) as list(${sql.join(types)}))`.as(
        alias,
      );
    },
    write: async (statements, { byRowLocks } = {}) =>
      answersTo(statements, (await run(statements, { guards: 0, byRowLocks })) ?? []),
    async writeIf(statements, { guards = 1, byRowLocks } = {}) {
      const answers = await run(statements, { guards, byRowLocks });
      return answers && answersTo(statements, answers);
    },
    insertNew,
    collect(target) {
      const rows: (readonly PlainValue[])[] = [];
      return {
        get size() {
          return rows.length;
        },
        add: (values) => rows.push(values),
        async insert() {
          await insertNew(target, rows);
        },
      };
    },
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
