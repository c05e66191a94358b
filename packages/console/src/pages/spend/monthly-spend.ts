import { may } from '@baobab/core/domain/operations.ts';
import { type Range, useNow } from '../../address/range.ts';
import { useUsage } from '../../api/queries.ts';
import { useSession } from '../../api/session.ts';
import type { Account, Key, UsageBucket } from '../../api/types.ts';
import { groupTotals, OTHERS } from '../../charts/grouping.ts';
import { bucketStart } from '../../format/zones.ts';

export interface MonthlySpend {
  /** Of a key with those that it replaced or that replaced it. Null: not known, because there are too many and others spent more. */
  get(spender: Key | Account): number | null;
  /** The request that failed: nothing is known. */
  failed?: { error: unknown; refetch(): Promise<unknown> };
}

/** Keys or accounts whose spend is read, those with the largest. */
const MOST_SPENDERS = 1_000;

/** Spend by key or account in this calendar month, UTC, as budgets count it. Undefined until it is known. */
export function useMonthlySpend(group: 'key' | 'account'): MonthlySpend | undefined {
  const now = useNow();
  const start = bucketStart(now, 'month', 'UTC');
  const month: Range = {
    name: 'month',
    fromMs: start,
    toMs: now,
    start: new Date(start).toISOString(),
    end: undefined,
    zone: 'UTC',
    bucket: 'month',
  };
  const enabled = may(useSession(), 'reports.usage');
  const usage = useUsage(month, 'month', { groupBy: group }, { enabled, top: MOST_SPENDERS });
  if (usage.data === undefined) return usage.isError ? { get: () => null, failed: usage } : undefined;
  const { buckets } = usage.data;
  // A key that was rotated counts as the first one, as in its budget.
  const counted = buckets.map((bucket) => ({ ...bucket, key: bucket.original_key ?? bucket.key }) as UsageBucket);
  const spent = new Map(groupTotals(counted, group).map(({ id, cost_usd }) => [id, cost_usd]));
  const idOf = (spender: Key | Account) => (spender.object === 'key' ? spender.original_id : spender.id);
  return { get: (spender) => spent.get(idOf(spender)) ?? (spent.has(OTHERS) ? null : 0) };
}
