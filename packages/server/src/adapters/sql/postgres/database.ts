import type { Secret } from '@baobab/core/ports/secret.ts';
import type { StoreHealth } from '@baobab/core/ports/store-health.ts';
import { asSecret } from '@baobab/core/runtime/secret.ts';
import { type Compilable, Kysely, PostgresDialect, type PostgresPool, sql } from 'kysely';
import type { Pool, QueryResult } from 'pg';
import { answersTo, type PlainValue, type SqlDatabase } from '../shared/database.ts';
import type { SchemaMigration } from '../shared/migrator.ts';
import { REPORTS_AT_ONCE, ReportTurns } from '../shared/report-turns.ts';
import type { Tables } from '../shared/tables.ts';
import { CommitHealth } from './commit-health.ts';
import { createPool } from './connections.ts';
import { withStoreErrors } from './failures.ts';
import { type LockLog, logBlocked } from './locks.ts';
import { migrateDatabase } from './migrate.ts';
import { createPartitions } from './partitions.ts';
import { forReading, forReport } from './read-pool.ts';
import { insertNewSql, rowsAsJson, storable } from './statements.ts';
import { runTransaction, type Statement, withRetries } from './transactions.ts';
import { refuseUnfinishedCopy } from './transfer-target.ts';

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database?sslmode=…` */
  url: string | Secret;
  migrations: Readonly<Record<string, SchemaMigration>>;
  /** How long one report may take that somebody asked for. Without end by default. */
  reportLimitMs?: number | undefined;
  /** How long requests wait for the end of an outage. */
  patienceMs?: number | undefined;
  log?: LockLog;
}

/** Connections of one process: together 16. Conflicts between transactions grow with the number of writers. */
const READ = { max: 6, query_timeout: 30_000 };
const WRITE = { max: 6, query_timeout: 30_000, pipeline: true };
/** A report is cancelled; the server's own timeout is for one whose process vanished. */
const REPORT_LIMIT_MS = 300_000;
const REPORT = { max: REPORTS_AT_ONCE, query_timeout: REPORT_LIMIT_MS };
/** Between two log lines about transactions that wait for a lock. */
const BLOCKED_LOG_MS = 5_000;

const compile = (statements: readonly Compilable[]): Statement[] =>
  statements.map((statement) => {
    const { sql, parameters } = statement.compile();
    return { text: sql, values: parameters.map(storable) };
  });

const toWritten = ({ rows, rowCount }: QueryResult) => ({ rows, changes: rowCount ?? 0 });

const over = (pool: PostgresPool): Kysely<Tables> => new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });

export async function openPostgres(options: PostgresOptions): Promise<SqlDatabase & { health: StoreHealth }> {
  const { migrations, reportLimitMs, patienceMs = 0, log } = options;
  const secret = asSecret(options.url);
  const address = () => secret.reread();
  await migrateDatabase({ address, migrations, log, check: refuseUnfinishedCopy });
  const [reads, writes, reports] = [READ, WRITE, REPORT].map((each) => createPool(address, each)) as [Pool, Pool, Pool];
  const turns = new ReportTurns({ limitMs: reportLimitMs });
  let logsBlockedAt = 0;
  const onSlow = () => {
    if (performance.now() < logsBlockedAt) return;
    logsBlockedAt = performance.now() + BLOCKED_LOG_MS;
    logBlocked(reads, log).catch(() => {});
  };
  const health = new CommitHealth({ pool: writes, patienceMs, onSlow });
  const cancelling = new Set<Promise<unknown>>();
  const cancel = (backend: number) => {
    const sent = reads.query('select pg_cancel_backend($1)', [backend]).catch(() => {});
    cancelling.add(sent);
    void sent.then(() => cancelling.delete(sent));
  };
  // One statement is a transaction of its own, and it reads nothing that another one could change.
  const insertAll: SqlDatabase['insertNew'] = (target, rows) =>
    withRetries(async () => {
      const { columns, uniqueColumn } = target;
      const inserted = await writes.query(insertNewSql(target), [rowsAsJson(target, rows)]);
      const left = new Set(inserted.rows.map((row) => row[uniqueColumn]));
      const place = columns.indexOf(uniqueColumn);
      // The second of two equal ones is not new.
      return rows.map((row) => left.delete(row[place]));
    });
  const insertNew: SqlDatabase['insertNew'] = (...given) => health.watch(() => insertAll(...given));

  const run = async (statements: readonly Compilable[], { guards = 0, byRowLocks = false }) =>
    (await health.watch(() => runTransaction(writes, compile(statements), { guards, byRowLocks })))?.map(toWritten);

  return {
    health,
    read: over(forReading(reads)),
    report: (caller) => over(forReport(reports, { run: turns.begin(caller), cancel, limitMs: REPORT_LIMIT_MS })),
    byIndex: (table) => sql<never>`${sql.table(table)}`.as(table),
    pagedBy: (column, value) => sql<boolean>`${sql.ref(column)} = any(${[value]}::text[])`,
    soughtIn: (column, values) => sql<boolean>`${sql.ref(column)} = any(array ${values})`,
    periodOfAll: sql<number>`(period + 0)`,
    given(alias, { columns, json }) {
      const types = Object.entries(columns).map(([name, type]) => sql`${sql.ref(name)} ${sql.raw(type)}`);
      return sql<never>`(select * from json_to_recordset(${json}::json) as list(${sql.join(types)}))`.as(alias);
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
    // PostgreSQL vacuums and analyzes by itself.
    async purge() {},
    async refreshStatistics() {},
    async prepareMonths(now) {
      await withStoreErrors(createPartitions(reports, { now, log }));
    },
    async time() {
      // Rounded down, as Date.now() is: a cast alone would round up, into the future.
      const text = 'select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now';
      const { rows } = await withRetries(() => reads.query<{ now: number }>(text));
      return rows[0]?.now as number;
    },
    async close() {
      health.close();
      turns.close();
      await Promise.all(cancelling);
      await Promise.all([reads, writes, reports].map((pool) => pool.end()));
    },
  };
}
