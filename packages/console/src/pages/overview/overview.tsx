import { keptSearch, useRange } from '../../address/range.ts';
import { href, usePlace } from '../../address/router.ts';
import { useLastEvent } from '../../api/events.ts';
import { useAccounts, usePerformance, useUsage } from '../../api/queries.ts';
import { useAccountFilter } from '../../api/session.ts';
import type { UsageReport } from '../../api/types.ts';
import { type Group, groupTotals, OTHERS } from '../../charts/grouping.ts';
import { Badge, Failure, Meter } from '../../components/feedback.tsx';
import { Card, Page, Skeleton } from '../../components/page.tsx';
import { RangeFilter } from '../../components/range-filter.tsx';
import { full, money, moneyExact } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';
import { FirstRequest } from '../first-request/first-request.tsx';
import { useMonthlySpend } from '../spend/monthly-spend.ts';
import { Budget } from './budget.tsx';
import { Charts } from './charts.tsx';
import { Figures } from './figures.tsx';

export default function Overview() {
  const range = useRange('7d');
  const account = useAccountFilter();
  const byModel = useUsage(range, range.bucket, { groupBy: 'model' });
  const byKey = useUsage(range, 'month', { groupBy: 'key' });
  const byAccount = useUsage(range, 'month', { groupBy: 'account' }, { enabled: account === '*' });
  const performance = usePerformance(range, range.bucket);
  const usage = byModel.data;
  const failed = byModel.error ?? performance.error;
  const empty = usage && performance.data && usage.totals.requests === 0 && performance.data.totals.requests === 0;
  return (
    <Page
      title={texts.overview.title}
      about={texts.overview.about}
      action={<Live />}
      filters={<RangeFilter range={range} />}
    >
      {failed && !usage ? (
        <Failure error={failed} onRetry={() => void byModel.refetch()} />
      ) : (
        <div class="stack">
          <Figures usage={usage?.totals} performance={performance.data?.totals} />
          {empty && <FirstRequest title={texts.overview.emptyTitle} text={texts.overview.emptyText} />}
          {!empty && (
            <>
              {performance.data && usage ? (
                <div class="grid-2">
                  <Charts range={range} usage={usage} performance={performance.data} />
                  {account === '*' ? <AccountBudgets /> : <Budget />}
                </div>
              ) : (
                <div class="grid-2">
                  <Skeleton height={290} />
                  <Skeleton height={290} />
                </div>
              )}
              <div class="grid-3">
                <Ranking title={texts.overview.topModels} usage={usage} group="model" />
                <Ranking title={texts.overview.topKeys} usage={byKey.data} group="key" />
                {account === '*' && (
                  <Ranking title={texts.overview.topAccounts} usage={byAccount.data} group="account" />
                )}
              </div>
            </>
          )}
        </div>
      )}
    </Page>
  );
}

function Live() {
  const counters = useLastEvent('counters');
  if (!counters) return null;
  return (
    <Badge tone="good">
      <span class="dot dot-good" />
      <span class="numbers">{texts.overview.liveNow(counters.in_flight, counters.last_minute.requests)}</span>
    </Badge>
  );
}

const MAX_ROWS = 6;

/** Which accounts are close to their budgets. */
function AccountBudgets() {
  const accounts = useAccounts();
  const spend = useMonthlySpend('account');
  const { overview } = texts;
  if (!accounts.data || !spend) return <Skeleton height={290} />;
  const rows = accounts.data.data
    .flatMap(({ id, name, status, monthly_budget_usd: budget }) => {
      if (budget === null || status === 'deleted') return [];
      const spent = spend.get(id) ?? 0;
      return [{ id, name, budget, spent, share: budget > 0 ? spent / budget : 1 }];
    })
    .toSorted((left, right) => right.share - left.share);
  return (
    <Card title={overview.budgets} aside={<span class="chart-zone">{overview.budgetMonth}</span>}>
      {rows.length === 0 && (
        <p class="muted">
          {overview.budgetsNone} <a href={href('/accounts')}>{texts.nav.accounts}</a>
        </p>
      )}
      <ul class="stack">
        {rows.slice(0, MAX_ROWS).map(({ id, name, budget, spent, share }) => (
          <li key={id} class="stack-tight">
            <div class="spread">
              <a class="truncate" dir="auto" href={href('/accounts', { open: id })}>
                {name}
              </a>
              <span class="mono small">{overview.budgetSpent(money(spent), money(budget))}</span>
            </div>
            <Meter share={share} label={name} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

interface RankingProps {
  title: string;
  usage: UsageReport | undefined;
  group: Group;
}

/** The most expensive groups, each a link to its usage. */
function Ranking({ title, usage, group }: RankingProps) {
  const { search } = usePlace();
  const kept = keptSearch(search);
  const rows = groupTotals(usage?.buckets ?? [], group)
    .filter(({ id }) => id !== OTHERS)
    .toSorted((left, right) => right.cost_usd - left.cost_usd || right.requests - left.requests);
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
