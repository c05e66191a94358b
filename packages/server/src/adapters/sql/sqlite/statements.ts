import type { BulkTarget } from '../shared/database.ts';

const texts = new WeakMap<object, string>();

/** Rows of this table are added to sums by those who insert them. See `ledger-sums.ts`. */
export const isSummed = ({ table }: { table: string }): boolean => table === 'ledger';

/** Made once for each target: the same text finds the same prepared statement. */
export function insertNewSql(
  target: Pick<BulkTarget, 'table'> & { columns: readonly string[]; uniqueColumn: string },
): string {
  const known = texts.get(target);
  if (known !== undefined) return known;
  const { table, columns, uniqueColumn } = target;
  const [marks, values] = isSummed(target) ? [['is_summed'], ['1']] : [[], []];
  const names = [...columns, ...marks].join(', ');
  const places = [...columns.map(() => '?'), ...values].join(', ');
  const text = `insert into ${table} (${names}) values (${places}) on conflict (${uniqueColumn}) do nothing`;
  texts.set(target, text);
  return text;
}
