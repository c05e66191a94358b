import { useMemo } from 'preact/hooks';
import { keptSearch, type Range, setCustomRange } from '../../address/range.ts';
import { href, navigate, usePlace } from '../../address/router.ts';
import type { Modality, PerformanceReport, UsageReport } from '../../api/types.ts';
import { useBuckets } from '../../charts/buckets.ts';
import { ChartTable } from '../../charts/chart-table.tsx';
import { groupSeries } from '../../charts/grouping.ts';
import type { Series } from '../../charts/plot.ts';
import { TimeChart } from '../../charts/time-chart.tsx';
import { OUTCOMES, outcomeColor } from '../../components/outcomes.tsx';
import { Card } from '../../components/page.tsx';
import { COUNT_STEPS, compact, full, money, moneyAxis, moneyExact } from '../../format/numbers.ts';
import { DURATION_STEPS, duration, durationAxis } from '../../format/times.ts';
import { texts } from '../../texts/en/texts.ts';

export interface ChartsProps {
  range: Range;
  /** By model. */
  usage: UsageReport;
  performance: PerformanceReport;
  /** Of one kind of model, which it names; the seconds of audio and of embeddings have nothing in common. Undefined: it could not be read. */
  latency: { report: PerformanceReport; modality: Modality | undefined } | undefined;
}

const COUNTS = { format: compact, steps: COUNT_STEPS };
const DURATIONS = {
  kind: 'lines',
  format: duration,
  formatAxis: durationAxis,
  steps: DURATION_STEPS,
  exact: duration,
} as const;

export function Charts({ range, usage, performance, latency }: ChartsProps) {
  const { overview } = texts;
  const kind = latency?.modality && texts.modalities[latency.modality];
  const report = latency?.report;
  const ofKind = (title: string) => (kind === undefined ? title : overview.ofKind(title, kind));
  const { startsMs, times } = useBuckets(range);
  const byModel = useMemo(() => {
    const options = { group: 'model' as const, startsMs };
    return {
      spend: groupSeries(usage.buckets, { ...options, metric: 'cost', rankBy: 'cost' }),
      tokens: groupSeries(usage.buckets, { ...options, metric: 'tokens', rankBy: 'cost' }),
    };
  }, [usage, startsMs]);
  const requests = useMemo(
    () => ({
      outcomes: outcomeSeries(performance.buckets, startsMs),
      latency: percentileSeries(report?.buckets ?? [], startsMs, 'latency_ms'),
      firstToken: percentileSeries(report?.buckets ?? [], startsMs, 'first_token_ms'),
    }),
    [performance, report, startsMs],
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
      <ChartCard {...common} {...COUNTS} title={overview.requestsOverTime} series={requests.outcomes} />
      <ChartCard {...common} {...COUNTS} title={overview.tokensOverTime} series={byModel.tokens} filter="model" />
      {report && (
        <ChartCard {...common} {...DURATIONS} title={ofKind(overview.latencyOverTime)} series={requests.latency} />
      )}
      {report && report.totals.first_token_ms !== null && (
        <ChartCard
          {...common}
          {...DURATIONS}
          title={ofKind(overview.firstTokenOverTime)}
          series={requests.firstToken}
        />
      )}
    </>
  );
}

type Buckets = PerformanceReport['buckets'];

const byStart = (buckets: Buckets) => new Map(buckets.map((bucket) => [Date.parse(bucket.start), bucket]));

function outcomeSeries(buckets: Buckets, starts: number[]): Series[] {
  const known = byStart(buckets);
  return OUTCOMES.map((id) => ({
    id,
    label: texts.outcomes[id],
    hue: -1,
    color: outcomeColor(id),
    values: starts.map((start) => known.get(start)?.[id] ?? 0),
  })).filter(({ id, values }) => id === 'succeeded' || values.some((value) => value > 0));
}

const PERCENTILES = ['p50', 'p90', 'p99'] as const;

function percentileSeries(buckets: Buckets, starts: number[], field: 'latency_ms' | 'first_token_ms'): Series[] {
  const known = byStart(buckets);
  return PERCENTILES.map((percentile, index) => ({
    id: percentile,
    label: percentile,
    hue: [0, 2, 1][index] ?? 0,
    values: starts.map((start) => known.get(start)?.[field]?.[percentile] ?? null),
  }));
}

interface ChartCardProps {
  title: string;
  times: number[];
  series: Series[];
  kind?: 'bars' | 'lines';
  range: Range;
  format: (value: number) => string;
  formatAxis?: (values: number[]) => string[];
  steps?: number[];
  exact?: (value: number) => string;
  /** The filter of the Usage page that a click on a series sets. */
  filter?: string;
  onZoom: (fromMs: number, toMs: number) => void;
}

const HEIGHT = 190;

function ChartCard({
  title,
  times,
  series,
  kind = 'bars',
  range,
  format,
  formatAxis,
  steps,
  exact = full,
  filter,
  onZoom,
}: ChartCardProps) {
  const { search } = usePlace();
  const drawn = series.some(({ values }) => values.some((value) => value !== null && value !== 0));
  const open = (id: string) => navigate(href('/usage', { ...keptSearch(search), group: 'key', [filter ?? '']: id }));
  return (
    <Card title={title} aside={<span class="chart-zone">{range.zone}</span>}>
      {drawn ? (
        <>
          <TimeChart
            label={title}
            times={times}
            series={series}
            kind={kind}
            fromMs={range.fromMs}
            toMs={range.toMs}
            zone={range.zone}
            bucket={range.bucket}
            height={HEIGHT}
            format={format}
            formatAxis={formatAxis}
            steps={steps}
            exact={exact}
            onZoom={onZoom}
            onSeries={filter ? open : undefined}
          />
          <ChartTable
            label={title}
            times={times}
            series={series}
            bucket={range.bucket}
            zone={range.zone}
            exact={exact}
          />
        </>
      ) : (
        <div class="chart-empty" style={{ height: `${HEIGHT}px` }}>
          {texts.charts.empty}
        </div>
      )}
    </Card>
  );
}
