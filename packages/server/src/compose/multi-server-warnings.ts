import type { ResolvedConfig } from '../config/load.ts';

/** Settings that are right for one server and wrong for several. How many there are cannot be known here. */
export function multiServerWarnings({ store, counters, blobs }: ResolvedConfig): string[] {
  const warnings: string[] = [];
  if (store !== undefined && counters === undefined) {
    warnings.push(
      'counters are in memory although the store can be shared: with several servers every one allows the whole limits and budgets. Set counters: redis://…',
    );
  }
  if (store !== undefined && blobs === undefined) {
    warnings.push(
      'blobs are on this disk although the store can be shared: other servers cannot read files and batches. Set blobs: s3://bucket/prefix',
    );
  }
  if (store === undefined && counters !== undefined) {
    warnings.push(
      'counters are in Redis although the store is SQLite on this machine: no other server may use the same Redis database. For several servers set store: postgres://…',
    );
  }
  return warnings;
}
