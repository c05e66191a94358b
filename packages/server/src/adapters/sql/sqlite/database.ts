import { chmod, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { SQLInputValue } from 'node:sqlite';
import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import { type Compilable, Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { answersTo, type BulkTarget, type SqlDatabase } from '../shared/database.ts';
import { migrate } from '../shared/migrator.ts';
import { ReportTurns } from '../shared/report-turns.ts';
import type { Tables } from '../shared/tables.ts';
import { isDiskFull, openConnection } from './connection.ts';
import { sqliteDialect } from './dialect.ts';
import { PackedRows } from './packed-rows.ts';
import { ReportProcesses, type ReportTurn } from './report-processes.ts';
import { createSpaceReserve } from './space-reserve.ts';
import { startThread, type ThreadClient } from './thread-client.ts';
import type { Statement, StatementResult } from './thread-messages.ts';

export interface SqliteOptions {
  path: string;
  migrations: Readonly<Record<string, Migration>>;
  /** `normal` saves an fsync per commit. A power cut may then lose the last commits; a `kill -9` never does. */
  synchronous?: 'full' | 'normal' | undefined;
  busyTimeoutMs?: number | undefined;
  /** Space set aside on the disk for urgent writes. */
  reserveBytes?: number | undefined;
  /** For a server: reports run in processes of their own, which can be ended. Otherwise a thread runs one after the other. */
  reportLimitMs?: number | undefined;
}

const compile = (statements: readonly Compilable[]): Statement[] =>
  statements.map((statement) => {
    const { sql, parameters } = statement.compile();
    return { sql, parameters: parameters as readonly SQLInputValue[] };
  });

const insertTexts = new WeakMap<object, string>();

/** Rows of this table are added to sums by those who insert them. See `ledger-sums.ts`. */
const isSummed = ({ table }: { table: string }): boolean => table === 'ledger';

/** Made once for each target: the same text finds the same prepared statement. */
function insertNewSql(
  target: Pick<BulkTarget, 'table'> & { columns: readonly string[]; uniqueColumn: string },
): string {
  const known = insertTexts.get(target);
  if (known !== undefined) return known;
  const { table, columns, uniqueColumn } = target;
  const [marks, values] = isSummed(target) ? [['is_summed'], ['1']] : [[], []];
  const names = [...columns, ...marks].join(', ');
  const places = [...columns.map(() => '?'), ...values].join(', ');
  const text = `insert into ${table} (${names}) values (${places}) on conflict (${uniqueColumn}) do nothing`;
  insertTexts.set(target, text);
  return text;
}

export async function openSqlite(options: SqliteOptions): Promise<SqlDatabase> {
  const { path, synchronous = 'full', busyTimeoutMs = 10_000, reserveBytes = 0 } = options;
  await createFile(path);
  try {
    await migrateFile(path, busyTimeoutMs, options.migrations);
  } catch (error) {
    // On a full disk, SQLite cannot even create the files beside the database.
    if (!isDiskFull((error as Error).cause) || !createSpaceReserve(path, reserveBytes).release()) throw error;
    await migrateFile(path, busyTimeoutMs, options.migrations);
  }

  const thread = (role: 'writer' | 'reader') => startThread({ path, role, synchronous, busyTimeoutMs, reserveBytes });
  const writer = thread('writer');
  const reader = thread('reader');
  const reports = startReports(options, () => thread('reader'));
  let analysis: Promise<boolean> | undefined;
  let isClosing = false;
  const over = (execute: (statement: Statement) => Promise<StatementResult>) =>
    new Kysely<Tables>({ dialect: sqliteDialect({ exclusive: false, execute }) });

  return {
    read: over((statement) => runOne(reader, statement)),
    report(caller) {
      const run = reports.turns.begin(caller);
      return over((statement) => run((signal, begun) => reports.run(statement, { signal, begun })));
    },
    byIndex: (table, index) =>
      sql<never>`${sql.table(table)}`.as(sql`${sql.table(table)} indexed by ${sql.ref(index)}`),
    pagedBy: (column, value) => sql<boolean>`${sql.ref(column)} = ${value}`,
    soughtIn: (column, values) => sql<boolean>`${sql.ref(column)} in ${values}`,
    periodOfAll: sql<number>`period`,
    given(alias, { columns, json }) {
      const read = Object.keys(columns).map(
        (name) => sql`json_extract(value, ${sql.lit(`$.${name}`)}) as ${sql.ref(name)}`,
      );
      return sql<never>`(select ${sql.join(read)} from json_each(${json}))`.as(alias);
    },
    write: async (statements) => answersTo(statements, await writer.run(compile(statements))),
    async writeIf(statements, { guards = 1, urgent = false } = {}) {
      const answers = await writer.runIf(compile(statements), { guards, urgent });
      return answers && answersTo(statements, answers);
    },
    async insertNew(target, rows) {
      const json = JSON.stringify(rows);
      const changes = await writer.runEach({ sql: insertNewSql(target), json, isSummed: isSummed(target) });
      return changes.map((count) => count > 0);
    },
    collect: (target) =>
      new PackedRows(async (json) => {
        await writer.runEach({ sql: insertNewSql(target), json, isSummed: isSummed(target) });
      }),
    async purge() {
      // Deleted rows are overwritten in the database file, but the write-ahead log still has them until it is emptied.
      const run = reports.turns.begin();
      const statement = { sql: 'pragma wal_checkpoint(truncate)', parameters: [] };
      await run((signal, begun) => reports.run(statement, { signal, begun }));
    },
    async refreshStatistics() {
      if (isClosing) return;
      analysis = analyze(thread('reader'), () => isClosing);
      if (!(await analysis) || isClosing) return;
      // A connection reads them when it is opened.
      reader.reopen();
      reports.renew();
    },
    // SQLite has no partitions.
    async prepareMonths() {},
    time: async () => Date.now(),
    async close() {
      isClosing = true;
      reports.turns.close();
      // An analysis ends after the table that it counts. Whoever began it gets its error.
      await Promise.all([reader.close(), reports.close(), analysis?.catch(() => {})]);
      // Last, so that its checkpoint meets no reader and removes the write-ahead log.
      await writer.close();
    },
  };
}

async function runOne(client: ThreadClient, statement: Statement): Promise<StatementResult> {
  const [result] = await client.run([statement]);
  return result ?? { rows: [], changes: 0 };
}

interface Reports {
  turns: ReportTurns;
  run(statement: Statement, turn: ReportTurn): Promise<StatementResult>;
  renew(): void;
  close(): Promise<void>;
}

function startReports(
  { path, busyTimeoutMs = 10_000, reportLimitMs }: SqliteOptions,
  thread: () => ThreadClient,
): Reports {
  const turns = new ReportTurns({ limitMs: reportLimitMs });
  if (reportLimitMs !== undefined) {
    const processes = new ReportProcesses({ path, busyTimeoutMs });
    return {
      turns,
      run: (statement, turn) => processes.run(statement, turn),
      renew: () => processes.renew(),
      close: () => processes.close(),
    };
  }
  let reporter: ThreadClient | undefined;
  return {
    turns,
    run(statement) {
      reporter ??= thread();
      return runOne(reporter, statement);
    },
    renew: () => reporter?.reopen(),
    close: async () => reporter?.close(),
  };
}

/** Rows of each index that are read. */
const ANALYSIS_LIMIT = 400;
/** Names the tables that have grown tenfold since the last time, or were never counted. */
const OUTDATED = 'pragma optimize = 0x10003';

/** Counts table by table, so that writes wait for one of them at most. False: nothing was outdated. */
async function analyze(thread: ThreadClient, isStopped: () => boolean): Promise<boolean> {
  const run = async (sql: string) => runOne(thread, { sql, parameters: [] });
  try {
    await run('pragma query_only = off');
    await run(`pragma analysis_limit = ${ANALYSIS_LIMIT}`);
    const { rows } = await run(OUTDATED);
    for (const row of rows) {
      if (isStopped()) break;
      await run(String(Object.values(row)[0]));
    }
    return rows.length > 0;
  } finally {
    await thread.close();
  }
}

/** Only its owner may read the database, also in a directory that others can read. SQLite gives its other files the same rights. */
async function createFile(path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  try {
    await (await open(path, 'a', 0o600)).close();
    await chmod(path, 0o600);
  } catch (cause) {
    throw cannotOpen(path, cause);
  }
}

const cannotOpen = (path: string, cause: unknown) =>
  new StoreUnavailableError(
    `The database ${path} cannot be opened: ${systemReason(cause)}. Name another data directory with --data-dir, or restore a backup.`,
    { cause },
  );

/** Runs in this thread, before anything is served. Waits for another process that is migrating. */
async function migrateFile(path: string, busyTimeoutMs: number, migrations: Readonly<Record<string, Migration>>) {
  let connection: ReturnType<typeof openConnection>;
  try {
    connection = openConnection(path, busyTimeoutMs);
    connection.exec('pragma journal_mode = wal; pragma synchronous = full');
  } catch (cause) {
    throw cannotOpen(path, cause);
  }
  try {
    const dialect = sqliteDialect({ exclusive: true, execute: async (statement) => connection.execute(statement) });
    await migrate(new Kysely<unknown>({ dialect }), migrations);
  } finally {
    connection.close();
  }
}
