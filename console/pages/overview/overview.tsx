import { useMemo } from 'preact/hooks';
import { useLastEvent } from '../../api/events.ts';
import { usePerformance, useUsage } from '../../api/queries.ts';
import type { PerformanceFigures, UsageFigures } from '../../api/types.ts';
import { setCustomRange, useRange } from '../../app/range.ts';
import { useAccountFilter } from '../../app/session.ts';
import { groupSeries } from '../../charts/grouping.ts';
import { Badge, Failure } from '../../components/feedback.tsx';
import { Page, Skeleton } from '../../components/page.tsx';
import { RangeFilter } from '../../components/range-filter.tsx';
import { compact, full, money, moneyAxis, moneyExact, percent } from '../../format/numbers.ts';
import { DURATION_STEPS, duration, durationAxis } from '../../format/times.ts';
import { bucketStarts } from '../../format/zones.ts';
import { texts } from '../../texts/en.ts';
import { FirstRequest } from '../first-request.tsx';
import { AccountBudgets } from './account-budgets.tsx';
import { Budget } from './budget.tsx';
import { ChartCard } from './chart-card.tsx';
import { outcomeSeries, percentileSeries } from './performance-series.ts';
import { Ranking } from './ranking.tsx';

export default function Overview() {
  const range = useRange('7d');
  const account = useAccountFilter();
  const byModel = useUsage(range, range.bucket, { groupBy: 'model' });
  const byKey = useUsage(range, 'month', { groupBy: 'key' });
  const byAccount = useUsage(range, 'month', { groupBy: 'account' }, account === '*');
  const performance = usePerformance(range, range.bucket);
  const starts = useMemo(
    () => bucketStarts(range.fromMs, range.toMs, range.bucket, range.zone),
    [range.fromMs, range.toMs, range.bucket, range.zone],
  );
  const times = useMemo(() => starts.map((start) => start / 1000), [starts]);
  const usage = byModel.data;
  const charts = useMemo(() => {
    const buckets = usage?.buckets ?? [];
    const options = { group: 'model' as const, startsMs: starts };
    return {
      spend: groupSeries(buckets, { ...options, metric: 'cost' }),
      tokens: groupSeries(buckets, { ...options, metric: 'tokens', rankBy: 'cost' }),
    };
  }, [usage, starts]);
  const speed = useMemo(() => {
    const buckets = performance.data?.buckets ?? [];
    return {
      outcomes: outcomeSeries(buckets, starts),
      latency: percentileSeries(buckets, starts, 'latency_ms'),
      firstToken: percentileSeries(buckets, starts, 'first_token_ms'),
    };
  }, [performance.data, starts]);

  const failed = byModel.error ?? performance.error;
  const common = { times, range, onZoom: setCustomRange };
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
                  <ChartCard
                    title={texts.overview.spendOverTime}
                    series={charts.spend}
                    format={money}
                    formatAxis={moneyAxis}
                    exact={moneyExact}
                    filter="model"
                    {...common}
                  />
                  <ChartCard
                    title={texts.overview.requestsOverTime}
                    series={speed.outcomes}
                    format={compact}
                    {...common}
                  />
                  <ChartCard
                    title={texts.overview.tokensOverTime}
                    series={charts.tokens}
                    format={compact}
                    filter="model"
                    {...common}
                  />
                  <ChartCard
                    title={texts.overview.latencyOverTime}
                    series={speed.latency}
                    kind="lines"
                    format={duration}
                    formatAxis={durationAxis}
                    steps={DURATION_STEPS}
                    exact={duration}
                    {...common}
                  />
                  <ChartCard
                    title={texts.overview.firstTokenOverTime}
                    series={speed.firstToken}
                    kind="lines"
                    format={duration}
                    formatAxis={durationAxis}
                    steps={DURATION_STEPS}
                    exact={duration}
                    {...common}
                  />
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

interface FiguresProps {
  usage: UsageFigures | undefined;
  performance: PerformanceFigures | undefined;
}

function Figures({ usage, performance }: FiguresProps) {
  const requests = performance?.requests ?? usage?.requests;
  const errors = performance && performance.server_errors + performance.client_errors + performance.limited;
  const tokens = usage && usage.prompt_tokens + usage.completion_tokens;
  const latency = performance?.latency_ms;
  const first = performance?.first_token_ms;
  const { figures } = texts;
  return (
    <dl class="figures">
      <Figure
        label={figures.requests}
        value={requests}
        format={compact}
        exact={full}
        note={usage && `${full(usage.requests)} ${figures.billed}`}
      />
      <Figure
        label={figures.tokens}
        value={tokens}
        format={compact}
        exact={full}
        note={usage && figures.tokenDetail(compact(usage.prompt_tokens), compact(usage.completion_tokens))}
      />
      <Figure
        label={figures.spend}
        value={usage?.cost_usd}
        format={money}
        exact={moneyExact}
        note={usage && requests ? figures.average(money(usage.cost_usd / Math.max(1, usage.requests))) : undefined}
      />
      <Figure
        label={figures.errors}
        value={errors}
        format={compact}
        exact={full}
        note={
          performance &&
          figures.errorDetail(percent((errors ?? 0) / Math.max(1, performance.requests)), performance.server_errors)
        }
        bad={(performance?.server_errors ?? 0) > 0}
      />
      <Figure
        label={`${figures.latency}, ${figures.median}`}
        value={performance && (latency?.p50 ?? null)}
        format={duration}
        exact={duration}
        note={latency ? `p90 ${duration(latency.p90)} · p99 ${duration(latency.p99)}` : undefined}
      />
      <Figure
        label={`${figures.firstToken}, ${figures.median}`}
        value={performance && (first?.p50 ?? null)}
        format={duration}
        exact={duration}
        note={first ? `p90 ${duration(first.p90)} · p99 ${duration(first.p99)}` : undefined}
      />
    </dl>
  );
}

interface FigureProps {
  label: string;
  /** Undefined while it loads, null without a value. */
  value: number | null | undefined;
  format: (value: number) => string;
  exact: (value: number) => string;
  note?: string | undefined;
  bad?: boolean;
}

function Figure({ label, value, format, exact, note, bad }: FigureProps) {
  return (
    <div class="figure">
      <dt>{label}</dt>
      {value === undefined ? (
        <dd>
          <span class="skeleton skeleton-line" />
        </dd>
      ) : (
        <dd title={value === null ? undefined : exact(value)} class={bad ? 'bad' : undefined}>
          {value === null ? '–' : format(value)}
        </dd>
      )}
      <dd class="figure-note">{note ?? ' '}</dd>
    </div>
  );
}
