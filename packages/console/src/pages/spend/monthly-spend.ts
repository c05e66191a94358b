import { may } from '@baobab/core/domain/operations.ts';
import { type Range, useNow } from '../../address/range.ts';
import { useUsage } from '../../api/queries.ts';
import { useSession } from '../../api/session.ts';
import { groupTotals, OTHERS } from '../../charts/grouping.ts';
import { bucketStart } from '../../format/zones.ts';

export interface MonthlySpend {
  /** Null: not known, because there are too many and others spent more. */
  get(id: string): number | null;
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
  const buckets = useUsage(month, 'month', { groupBy: group }, { enabled, top: MOST_SPENDERS }).data?.buckets;
  if (buckets === undefined) return undefined;
  const spent = new Map(groupTotals(buckets, group).map(({ id, cost_usd }) => [id, cost_usd]));
  return { get: (id) => spent.get(id) ?? (spent.has(OTHERS) ? null : 0) };
}
