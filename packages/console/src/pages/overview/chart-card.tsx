import { keptSearch, type Range } from '../../address/range.ts';
import { href, navigate, usePlace } from '../../address/router.ts';
import { ChartTable } from '../../charts/chart-table.tsx';
import type { Series } from '../../charts/plot.ts';
import { TimeChart } from '../../charts/time-chart.tsx';
import { Card } from '../../components/page.tsx';
import { full } from '../../format/numbers.ts';
import { texts } from '../../texts/en/texts.ts';

export interface ChartCardProps {
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

export function ChartCard({
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
