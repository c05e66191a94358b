import { useMemo } from 'preact/hooks';
import { type Range, setCustomRange } from '../../address/range.ts';
import type { PerformanceReport, UsageReport } from '../../api/types.ts';
import { useBuckets } from '../../charts/buckets.ts';
import { groupSeries } from '../../charts/grouping.ts';
import { compact, money, moneyAxis, moneyExact } from '../../format/numbers.ts';
import { DURATION_STEPS, duration, durationAxis } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';
import { ChartCard } from './chart-card.tsx';
import { outcomeSeries, percentileSeries } from './performance-series.ts';

export interface ChartsProps {
  range: Range;
  /** By model. */
  usage: UsageReport;
  performance: PerformanceReport;
}

const DURATIONS = {
  kind: 'lines',
  format: duration,
  formatAxis: durationAxis,
  steps: DURATION_STEPS,
  exact: duration,
} as const;

export function Charts({ range, usage, performance }: ChartsProps) {
  const { overview } = texts;
  const { startsMs, times } = useBuckets(range);
  const byModel = useMemo(() => {
    const options = { group: 'model' as const, startsMs };
    return {
      spend: groupSeries(usage.buckets, { ...options, metric: 'cost' }),
      tokens: groupSeries(usage.buckets, { ...options, metric: 'tokens', rankBy: 'cost' }),
    };
  }, [usage, startsMs]);
  const requests = useMemo(
    () => ({
      outcomes: outcomeSeries(performance.buckets, startsMs),
      latency: percentileSeries(performance.buckets, startsMs, 'latency_ms'),
      firstToken: percentileSeries(performance.buckets, startsMs, 'first_token_ms'),
    }),
    [performance, startsMs],
  );
  const common = { times, range, onZoom: setCustomRange };
  return (
    <>
      <ChartCard
        {...common}
        title={overview.spendOverTime}
        series={byModel.spend}
        format={money}
        formatAxis={moneyAxis}
        exact={moneyExact}
        filter="model"
      />
      <ChartCard {...common} title={overview.requestsOverTime} series={requests.outcomes} format={compact} />
      <ChartCard {...common} title={overview.tokensOverTime} series={byModel.tokens} format={compact} filter="model" />
      <ChartCard {...common} {...DURATIONS} title={overview.latencyOverTime} series={requests.latency} />
      <ChartCard {...common} {...DURATIONS} title={overview.firstTokenOverTime} series={requests.firstToken} />
    </>
  );
}
