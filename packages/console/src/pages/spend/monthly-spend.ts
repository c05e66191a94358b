import { may } from '@baobab/core/domain/operations.ts';
import { type Range, useNow } from '../../address/range.ts';
import { useUsage } from '../../api/queries.ts';
import { useSession } from '../../api/session.ts';
import { groupTotals } from '../../charts/grouping.ts';
import { bucketStart } from '../../format/zones.ts';

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
  const usage = useUsage(month, 'month', { groupBy: group }, may(useSession(), 'reports.usage'));
  const buckets = usage.data?.buckets;
  return buckets && new Map(groupTotals(buckets, group).map(({ id, cost_usd }) => [id, cost_usd]));
}
