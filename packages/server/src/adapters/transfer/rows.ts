import {
  type AccountSums,
  type Cells,
  DERIVED_TABLES,
  type TableShape,
  TransferError,
  type TransferSource,
  type TransferTarget,
} from '../sql/shared/transfer.ts';

const BATCH_ROWS = 2_000;
const BATCH_BYTES = 4_194_304;

/** Called often; `of` is the number of rows or blobs in all. */
export type OnProgress = (what: string, done: number, of: number) => void;

const sizeOf = (cells: Cells): number => cells.reduce((sum, cell) => sum + (cell?.length ?? 0), 0);

/** Every table of the source has a place in the target, and none is left out. */
export function requireSameTables(source: readonly TableShape[], target: readonly TableShape[]): void {
  const describe = ({ name, columns }: TableShape) => `${name} (${columns.join(', ')})`;
  const [here, there] = [source, target].map((tables) => new Set(tables.map(describe))) as [Set<string>, Set<string>];
  const odd = [...here.symmetricDifference(there)];
  if (odd.length > 0) throw new TransferError(`SQLite and PostgreSQL have different tables: ${odd.join('; ')}`);
}

/** Copies all rows into empty tables. */
export async function copyRows(source: TransferSource, target: TransferTarget, onCopied: OnProgress): Promise<void> {
  requireSameTables(source.tables, target.tables);
  for (const table of target.tables) {
    if (DERIVED_TABLES.includes(table.name)) continue;
    const total = source.count(table.name);
    let rows = 0;
    let batch: Cells[] = [];
    let bytes = 0;
    const flush = async () => {
      if (batch.length === 0) return;
      await target.append(table, batch);
      rows += batch.length;
      [batch, bytes] = [[], 0];
      onCopied(table.name, rows, total);
    };
    for (const cells of source.rows(table)) {
      batch.push(cells);
      bytes += sizeOf(cells);
      if (batch.length >= BATCH_ROWS || bytes >= BATCH_BYTES) await flush();
    }
    await flush();
  }
  await target.continueIdentities();
}

export interface RowsProof {
  tables: { table: string; rowsHere: number; rowsThere: number; equal: boolean }[];
  accounts: { account: string; here: AccountSums | undefined; there: AccountSums | undefined; equal: boolean }[];
}

const byAccount = (sums: readonly AccountSums[]) => new Map(sums.map((each) => [each.account, each]));

const areEqual = (here: AccountSums | undefined, there: AccountSums | undefined): boolean =>
  here !== undefined &&
  there !== undefined &&
  here.requests === there.requests &&
  here.tokens === there.tokens &&
  here.costNanoUsd === there.costNanoUsd;

/** Compares the number of rows of every table, and the ledger's sums of each account as the databases add them up. */
export async function compareRows(source: TransferSource, target: TransferTarget): Promise<RowsProof> {
  const tables: RowsProof['tables'] = [];
  for (const { name } of target.tables) {
    const [rowsHere, rowsThere] = [source.count(name), await target.count(name)];
    tables.push({ table: name, rowsHere, rowsThere, equal: rowsHere === rowsThere });
  }
  const [here, there] = [byAccount(source.ledgerSums()), byAccount(await target.ledgerSums())];
  const accounts = [...new Set([...here.keys(), ...there.keys()])].toSorted().map((account) => {
    const sums = { here: here.get(account), there: there.get(account) };
    return { account, ...sums, equal: areEqual(sums.here, sums.there) };
  });
  return { tables, accounts };
}

export const isEqual = ({ tables, accounts }: RowsProof): boolean =>
  [...tables, ...accounts].every(({ equal }) => equal);
