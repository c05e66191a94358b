import {
  DERIVED_TABLES,
  type SourceRow,
  type TableShape,
  TransferError,
  type TransferSource,
  type TransferTarget,
} from './tables.ts';

const BATCH_ROWS = 2_000;
const BATCH_BYTES = 4_194_304;

/** Called often; `of` is the number of rows or blobs in all. */
export type OnProgress = (what: string, done: number, of: number) => void;

const sizeOf = ({ cells }: SourceRow): number => cells.reduce((sum, cell) => sum + (cell?.length ?? 0), 0);

/** Every table of the source has a place in the target, and none is left out. */
export function requireSameTables(source: readonly TableShape[], target: readonly TableShape[]): void {
  const describe = ({ name, columns }: TableShape) => `${name} (${columns.join(', ')})`;
  const [here, there] = [source, target].map((tables) => new Set(tables.map(describe))) as [Set<string>, Set<string>];
  const odd = [...here.symmetricDifference(there)];
  if (odd.length > 0) throw new TransferError(`SQLite and PostgreSQL have different tables: ${odd.join('; ')}`);
}

async function copyTable(table: TableShape, source: TransferSource, target: TransferTarget, onRows: OnProgress) {
  const total = source.count(table.name);
  let { rows, cursor } = await target.progress(table.name);
  let batch: SourceRow[] = [];
  let bytes = 0;
  const flush = async () => {
    const last = batch.at(-1);
    if (last === undefined) return;
    rows += batch.length;
    cursor = last.cursor;
    await target.append(table, batch, { rows, cursor });
    [batch, bytes] = [[], 0];
    onRows(table.name, rows, total);
  };
  for (const row of source.rows(table, cursor)) {
    batch.push(row);
    bytes += sizeOf(row);
    if (batch.length >= BATCH_ROWS || bytes >= BATCH_BYTES) await flush();
  }
  await flush();
}

export interface CopyEvents {
  onCopied: OnProgress;
  /** Rows that an interrupted run had copied. */
  onResumed(rows: number): void;
}

/** Copies the rows that are not copied yet. */
export async function copyTables(source: TransferSource, target: TransferTarget, events: CopyEvents): Promise<void> {
  requireSameTables(source.tables, target.tables);
  let resumedRows = 0;
  for (const { name } of target.tables) resumedRows += (await target.progress(name)).rows;
  if (resumedRows > 0) events.onResumed(resumedRows);
  for (const table of target.tables) {
    if (!DERIVED_TABLES.includes(table.name)) await copyTable(table, source, target, events.onCopied);
  }
  await target.continueIdentities();
}
