import { useRange } from '../../address/range.ts';
import { useLastEvent } from '../../api/events.ts';
import { usePerformance, useUsage } from '../../api/queries.ts';
import { useAccountFilter } from '../../api/session.ts';
import { Badge, Failure } from '../../components/feedback.tsx';
import { Page, Skeleton } from '../../components/page.tsx';
import { RangeFilter } from '../../components/range-filter.tsx';
import { texts } from '../../texts/en/texts.ts';
import { FirstRequest } from '../first-request/first-request.tsx';
import { AccountBudgets } from './account-budgets.tsx';
import { Budget } from './budget.tsx';
import { Charts } from './charts.tsx';
import { Figures } from './figures.tsx';
import { Ranking } from './ranking.tsx';

export default function Overview() {
  const range = useRange('7d');
  const account = useAccountFilter();
  const byModel = useUsage(range, range.bucket, { groupBy: 'model' });
  const byKey = useUsage(range, 'month', { groupBy: 'key' });
  const byAccount = useUsage(range, 'month', { groupBy: 'account' }, account === '*');
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
