import type { PlainValue } from '../shared/database.ts';

interface Target {
  table: string;
  columns: readonly string[];
  uniqueColumn: string;
}

/**
 * One statement for any number of rows: they arrive as JSON and take the types of the table. Sorted, so that two processes which insert
 * the same rows do not wait for each other in a circle.
 */
export function insertNewSql({ table, columns, uniqueColumn }: Target): string {
  const names = columns.join(', ');
  return (
    `insert into ${table} (${names}) select ${names} from json_populate_recordset(null::${table}, $1::json) ` +
    `order by ${uniqueColumn} on conflict (${uniqueColumn}) do nothing returning ${uniqueColumn}`
  );
}

export const rowsAsJson = ({ columns }: Target, rows: readonly (readonly PlainValue[])[]): string =>
  JSON.stringify(rows.map((row) => Object.fromEntries(columns.map((column, index) => [column, row[index]]))));

/** Texts of PostgreSQL cannot hold U+0000, and a query with one fails, also where it only compares. Ids and names never have it. */
export const storable = (value: unknown): unknown =>
  typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\ufffd') : value;
