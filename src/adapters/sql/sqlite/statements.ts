import type { BulkTarget } from '../shared/database.ts';

const texts = new WeakMap<object, string>();

/** Made once for each target: the same text finds the same prepared statement. */
export function insertNewSql(
  target: Pick<BulkTarget, 'table'> & { columns: readonly string[]; uniqueColumn: string },
): string {
  const known = texts.get(target);
  if (known !== undefined) return known;
  const { table, columns, uniqueColumn } = target;
  const places = columns.map(() => '?').join(', ');
  const text = `insert into ${table} (${columns.join(', ')}) values (${places}) on conflict (${uniqueColumn}) do nothing`;
  texts.set(target, text);
  return text;
}
