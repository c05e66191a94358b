import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';
import type { AccountSums, Cell, Cells, TableShape, TransferSource } from '../shared/transfer.ts';

const BUSY_TIMEOUT_MS = 10_000;

/** Marks that say nothing about a row, and that no other database has. */
const OWN_COLUMNS: readonly string[] = ['is_summed'];

const quoted = (name: string) => `"${name}"`;
const list = (names: readonly string[]) => names.map(quoted).join(', ');

function toCell(value: SQLOutputValue): Cell {
  return value === null || typeof value === 'string' || value instanceof Uint8Array ? value : String(value);
}

function readTables(database: DatabaseSync): TableShape[] {
  const tables = database
    .prepare(
      "select name from pragma_table_list where schema = 'main' and type = 'table' and name not like 'sqlite!_%' escape '!' and name not like 'kysely!_%' escape '!' order by name",
    )
    .all() as { name: string }[];
  const columnsOf = database.prepare('select name from pragma_table_info(?)');
  return tables.map(({ name }) => ({
    name,
    columns: columnsOf
      .all(name)
      .map((column) => String(column.name))
      .filter((column) => !OWN_COLUMNS.includes(column))
      .toSorted(),
  }));
}

/**
 * Opens a database for a copy. The write lock is held until it is closed, so that commands change nothing meanwhile. The journal must
 * have been moved into the ledger.
 */
export function openSqliteSource(path: string): TransferSource {
  const database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
  try {
    database.exec('begin immediate');
  } catch (error) {
    database.close();
    throw error;
  }
  const first = database.prepare('select id from accounts order by created_at_ms, id limit 1').get();

  function* rows({ name, columns }: TableShape): Generator<Cells> {
    const statement = database.prepare(`select ${list(columns)} from ${quoted(name)}`);
    statement.setReadBigInts(true);
    statement.setReturnArrays(true);
    for (const row of statement.iterate() as unknown as Iterable<SQLOutputValue[]>) yield row.map(toCell);
  }

  return {
    identity: first?.id as string | undefined,
    tables: readTables(database),
    count: (table) => Number(database.prepare(`select count(*) as rows from ${quoted(table)}`).get()?.rows),
    rows,
    ledgerSums: () =>
      database
        .prepare(
          `select account_id as account, cast(count(*) as text) as requests,
            cast(sum(prompt_tokens + completion_tokens) as text) as tokens, cast(sum(cost_nano_usd) as text) as "costNanoUsd"
          from ledger join ledger_series on ledger_series.id = series_id group by account_id`,
        )
        .all() as unknown as AccountSums[],
    close: () => database.close(),
  };
}
