import { useUsage } from '../api/queries.ts';
import { type Range, useNow } from '../app/range.ts';
import { may, useSession } from '../app/session.ts';
import { groupTotals } from '../charts/grouping.ts';
import { bucketStart } from '../format/zones.ts';

/** Spend by key or account in this calendar month, UTC, as budgets count it. Undefined until it is known. */
export function useMonthlySpend(group: 'key' | 'account'): Map<string, number> | undefined {
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
  const usage = useUsage(month, 'month', { groupBy: group }, may(useSession(), 'usage'));
  const buckets = usage.data?.buckets;
  return buckets && new Map(groupTotals(buckets, group).map(({ id, cost_usd }) => [id, cost_usd]));
}
