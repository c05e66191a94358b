import { DatabaseSync, type SQLInputValue, type SQLOutputValue } from 'node:sqlite';
import type { AccountSums, Cell, SourceRow, TableShape, TransferSource } from '../../transfer/tables.ts';

const BUSY_TIMEOUT_MS = 10_000;

interface Table extends TableShape {
  /** What its rows are read in the order of: the rowid, or the primary key of a table without one. */
  key: readonly string[];
}

/** Marks that say nothing about a row, and that no other database has. */
const OWN_COLUMNS: readonly string[] = ['is_summed'];

const quoted = (name: string) => `"${name}"`;
const list = (names: readonly string[]) => names.map(quoted).join(', ');

function toCell(value: SQLOutputValue): Cell {
  return value === null || typeof value === 'string' || value instanceof Uint8Array ? value : String(value);
}

function readTables(database: DatabaseSync): Table[] {
  const tables = database
    .prepare(
      "select name, wr from pragma_table_list where schema = 'main' and type = 'table' and name not like 'sqlite!_%' escape '!' and name not like 'kysely!_%' escape '!' order by name",
    )
    .all() as { name: string; wr: number }[];
  return tables.map(({ name, wr }) => {
    const columns = database.prepare('select name, pk from pragma_table_info(?)').all(name) as {
      name: string;
      pk: number;
    }[];
    const primary = columns.filter(({ pk }) => pk > 0).toSorted((left, right) => left.pk - right.pk);
    return {
      name,
      columns: columns
        .map((column) => column.name)
        .filter((column) => !OWN_COLUMNS.includes(column))
        .toSorted(),
      key: wr === 1 ? primary.map((column) => column.name) : ['rowid'],
    };
  });
}

const toCursor = (key: readonly SQLOutputValue[]): string =>
  JSON.stringify(key.map((value) => (typeof value === 'bigint' ? { integer: `${value}` } : value)));

const fromCursor = (cursor: string): SQLInputValue[] =>
  (JSON.parse(cursor) as (string | number | { integer: string })[]).map((value) =>
    typeof value === 'object' ? BigInt(value.integer) : value,
  );

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
  const tables = new Map(readTables(database).map((table) => [table.name, table]));
  const first = database.prepare('select id from accounts order by created_at_ms, id limit 1').get();

  function* rows({ name }: TableShape, after?: string): Generator<SourceRow> {
    const { columns, key } = tables.get(name) as Table;
    const places = key.map(() => '?').join(', ');
    const from = after === undefined ? '' : `where (${list(key)}) > (${places})`;
    const statement = database.prepare(
      `select ${list(key)}, ${list(columns)} from ${quoted(name)} ${from} order by ${list(key)}`,
    );
    statement.setReadBigInts(true);
    statement.setReturnArrays(true);
    const found = statement.iterate(...(after === undefined ? [] : fromCursor(after)));
    for (const row of found as unknown as Iterable<SQLOutputValue[]>) {
      yield { cursor: toCursor(row.slice(0, key.length)), cells: row.slice(key.length).map(toCell) };
    }
  }

  return {
    identity: first?.id as string | undefined,
    tables: [...tables.values()].map(({ name, columns }) => ({ name, columns })),
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
