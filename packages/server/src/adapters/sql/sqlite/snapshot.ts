import { DatabaseSync } from 'node:sqlite';

const BUSY_TIMEOUT_MS = 10_000;

/**
 * Copies a database as it is at one moment, while others write to it. SQLite's backup API would start again after every write of
 * another process; this reads in one transaction. The copy has no free pages, so nothing deleted is in it.
 */
export function snapshotSqlite(path: string, target: string): void {
  using database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
  database.prepare('vacuum into ?').run(target);
}

/** The first thing that is wrong with a database file, if any. */
export function findDamage(path: string): string | undefined {
  try {
    using database = new DatabaseSync(path, { readOnly: true });
    const result = database.prepare('pragma integrity_check(1)').get()?.integrity_check;
    return result === 'ok' ? undefined : String(result);
  } catch (error) {
    return (error as Error).message;
  }
}

export interface LedgerSums {
  rows: number;
  costNanoUsd: string;
}

/** What the ledger of a copy adds up to, to compare a restored one with. */
export function ledgerSums(path: string): LedgerSums {
  using database = new DatabaseSync(path, { readOnly: true });
  const sums = database
    .prepare('select count(*) as rows, cast(coalesce(sum(cost_nano_usd), 0) as text) as cost from ledger')
    .get();
  return { rows: Number(sums?.rows), costNanoUsd: String(sums?.cost) };
}
