import { keptSearch } from '../../address/range.ts';
import { href, usePlace } from '../../address/router.ts';
import type { UsageReport } from '../../api/types.ts';
import { type Group, groupTotals } from '../../charts/grouping.ts';
import { Card, Skeleton } from '../../components/page.tsx';
import { full, money, moneyExact } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';

const MAX_ROWS = 6;

export interface RankingProps {
  title: string;
  usage: UsageReport | undefined;
  group: Group;
}

/** The most expensive groups, each a link to its usage. */
export function Ranking({ title, usage, group }: RankingProps) {
  const { search } = usePlace();
  const kept = keptSearch(search);
  const rows = groupTotals(usage?.buckets ?? [], group).toSorted(
    (left, right) => right.cost_usd - left.cost_usd || right.requests - left.requests,
  );
  const top = rows[0]?.cost_usd ?? 0;
  return (
    <Card title={title}>
      {usage === undefined && <Skeleton height={180} />}
      {usage !== undefined && rows.length === 0 && <p class="muted small">{texts.usage.empty}</p>}
      <ul class="ranking">
        {rows.slice(0, MAX_ROWS).map(({ id, label, cost_usd, requests }) => (
          <li key={id}>
            <a
              class="ranking-row"
              href={href('/usage', { ...kept, [group]: id, group: group === 'model' ? 'key' : 'model' })}
              title={`${label}: ${moneyExact(cost_usd)}, ${full(requests)} ${texts.figures.requests.toLowerCase()}`}
            >
              <span class="ranking-bar" style={{ width: `${top > 0 ? (cost_usd / top) * 100 : 0}%` }} />
              <span class="truncate">{label}</span>
              <span class="mono">{money(cost_usd)}</span>
            </a>
          </li>
        ))}
      </ul>
      {rows.length > MAX_ROWS && (
        <a class="small" href={href('/usage', { ...kept, group })}>
          {texts.usage.tooMany(rows.length - MAX_ROWS)}
        </a>
      )}
    </Card>
  );
}
