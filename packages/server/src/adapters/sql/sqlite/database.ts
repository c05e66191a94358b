import { chmod, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { SQLInputValue } from 'node:sqlite';
import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { type Compilable, Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { answersTo, type BulkTarget, givenJson, type SqlDatabase } from '../shared/database.ts';
import { migrate } from '../shared/migrator.ts';
import type { Tables } from '../shared/tables.ts';
import { isDiskFull, openConnection } from './connection.ts';
import { sqliteDialect } from './dialect.ts';
import { PackedRows } from './packed-rows.ts';
import { createSpaceReserve } from './space-reserve.ts';
import { startThread, type ThreadClient } from './thread-client.ts';
import type { Statement } from './thread-messages.ts';

export interface SqliteOptions {
  path: string;
  migrations: Readonly<Record<string, Migration>>;
  /** `normal` saves an fsync per commit. A power cut may then lose the last commits; a `kill -9` never does. */
  synchronous?: 'full' | 'normal' | undefined;
  busyTimeoutMs?: number | undefined;
  /** Space set aside on the disk for urgent writes. */
  reserveBytes?: number | undefined;
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
  let reporter: ThreadClient | undefined;

  const startedReporter = (): ThreadClient => {
    reporter ??= thread('reader');
    return reporter;
  };
  const over = (client: () => ThreadClient) =>
    new Kysely<Tables>({
      dialect: sqliteDialect({
        exclusive: false,
        async execute(statement) {
          const [result] = await client().run([statement]);
          return result ?? { rows: [], changes: 0 };
        },
      }),
    });

  return {
    read: over(() => reader),
    report: over(startedReporter),
    byIndex: (table, index) =>
      sql<never>`${sql.table(table)}`.as(sql`${sql.table(table)} indexed by ${sql.ref(index)}`),
    given(alias, columns, rows) {
      const read = Object.keys(columns).map(
        (name) => sql`json_extract(value, ${sql.lit(`$.${name}`)}) as ${sql.ref(name)}`,
      );
      return sql<never>`(select ${sql.join(read)} from json_each(${givenJson(rows)}))`.as(alias);
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
      await startedReporter().run([{ sql: 'pragma wal_checkpoint(truncate)', parameters: [] }]);
    },
    // SQLite has no partitions.
    async prepareMonths() {},
    clockSkewMs: async () => 0,
    async close() {
      await Promise.all([reader.close(), reporter?.close()]);
      // Last, so that its checkpoint meets no reader and removes the write-ahead log.
      await writer.close();
    },
  };
}

/** Only its owner may read the database, also in a directory that others can read. SQLite gives its other files the same rights. */
async function createFile(path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  try {
    await (await open(path, 'a', 0o600)).close();
    await chmod(path, 0o600);
  } catch (cause) {
    throw cannotOpen(cause);
  }
}

const cannotOpen = (cause: unknown) =>
  new StoreUnavailableError(`The database cannot be opened: ${(cause as Error).message}.`, { cause });

/** Runs in this thread, before anything is served. Waits for another process that is migrating. */
async function migrateFile(path: string, busyTimeoutMs: number, migrations: Readonly<Record<string, Migration>>) {
  let connection: ReturnType<typeof openConnection>;
  try {
    connection = openConnection(path, busyTimeoutMs);
    connection.exec('pragma journal_mode = wal; pragma synchronous = full');
  } catch (cause) {
    throw cannotOpen(cause);
  }
  try {
    const dialect = sqliteDialect({ exclusive: true, execute: async (statement) => connection.execute(statement) });
    await migrate(new Kysely<unknown>({ dialect }), migrations);
  } finally {
    connection.close();
  }
}
