import type { OnProgress } from './copy.ts';
import { createDigest, type TableDigest } from './digest.ts';
import type { AccountSums, TableShape, TransferSource, TransferTarget } from './tables.ts';

export interface TableProof {
  table: string;
  rowsHere: number;
  rowsThere: number;
  /** The contents of all rows are the same, not only their number. */
  equal: boolean;
}

export interface AccountProof {
  account: string;
  here: AccountSums | undefined;
  there: AccountSums | undefined;
  equal: boolean;
}

export interface RowsProof {
  tables: TableProof[];
  accounts: AccountProof[];
}

function digestHere(table: TableShape, source: TransferSource): TableDigest {
  const builder = createDigest();
  for (const { cells } of source.rows(table)) builder.add(cells);
  return builder.digest;
}

async function digestThere(table: TableShape, target: TransferTarget, onRow: (rows: number) => void) {
  const builder = createDigest();
  for await (const cells of target.rows(table)) {
    builder.add(cells);
    onRow(builder.digest.rows);
  }
  return builder.digest;
}

function compareAccounts(here: readonly AccountSums[], there: readonly AccountSums[]): AccountProof[] {
  const [left, right] = [here, there].map((list) => new Map(list.map((each) => [each.account, each]))) as [
    Map<string, AccountSums>,
    Map<string, AccountSums>,
  ];
  return [...new Set([...left.keys(), ...right.keys()])].toSorted().map((account) => {
    const [mine, theirs] = [left.get(account), right.get(account)];
    const equal =
      mine !== undefined &&
      theirs !== undefined &&
      mine.requests === theirs.requests &&
      mine.tokens === theirs.tokens &&
      mine.costNanoUsd === theirs.costNanoUsd;
    return { account, here: mine, there: theirs, equal };
  });
}

/** Reads both databases again and compares every row, and the ledger's sums of each account as the databases add them up. */
export async function proveRows(
  source: TransferSource,
  target: TransferTarget,
  onRows: OnProgress,
): Promise<RowsProof> {
  const tables: TableProof[] = [];
  for (const table of target.tables) {
    const here = digestHere(table, source);
    const there = await digestThere(table, target, (rows) => onRows(table.name, rows, here.rows));
    const equal = here.rows === there.rows && here.sum === there.sum;
    tables.push({ table: table.name, rowsHere: here.rows, rowsThere: there.rows, equal });
  }
  return { tables, accounts: compareAccounts(source.ledgerSums(), await target.ledgerSums()) };
}

export const isEqual = ({ tables, accounts }: RowsProof): boolean =>
  [...tables, ...accounts].every(({ equal }) => equal);
