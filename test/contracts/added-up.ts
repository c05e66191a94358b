import type { LedgerRow } from '../../packages/core/src/ports/ledger.ts';
import type { UsageQuery, UsageRow } from '../../packages/core/src/ports/usage.ts';

const FIELD = { model: 'model', region: 'region', key: 'keyId', account: 'accountId' } as const;
const COUNTS = ['promptTokens', 'completionTokens', 'cacheReadTokens', 'audioSeconds'] as const;

type CountedRow = Pick<
  LedgerRow,
  'time' | 'accountId' | 'keyId' | 'model' | 'region' | 'costNanoUsd' | (typeof COUNTS)[number]
>;

/** A usage report, added up row by row. Names of keys and accounts are left out. */
export function addedUp(
  rows: readonly CountedRow[],
  query: Omit<UsageQuery, 'limit'>,
  bucketOf: (time: number) => number,
): Partial<UsageRow>[] {
  const { start, end, groupBy, accountId, model, region, keyId } = query;
  const buckets = new Map<string, UsageRow>();
  for (const row of rows) {
    if (row.time < start || row.time >= end) continue;
    if ((accountId ?? row.accountId) !== row.accountId || (model ?? row.model) !== row.model) continue;
    if ((region ?? row.region) !== row.region || (keyId ?? row.keyId) !== row.keyId) continue;
    const index = bucketOf(row.time);
    const names = groupBy.map((group) => [FIELD[group], row[FIELD[group]]] as const);
    const id = [String(index).padStart(9, '0'), ...names.map(([, name]) => name)].join('\n');
    const sum = buckets.get(id) ?? {
      index,
      ...Object.fromEntries(names),
      requests: 0,
      promptTokens: 0,
      completionTokens: 0,
      cacheReadTokens: 0,
      audioSeconds: 0,
      costNanoUsd: 0n,
    };
    sum.requests += 1;
    for (const count of COUNTS) sum[count] += row[count];
    sum.costNanoUsd += BigInt(row.costNanoUsd);
    buckets.set(id, sum);
  }
  return [...buckets].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, sum]) => sum);
}
