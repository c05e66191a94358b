import { useEffect, useRef, useState } from 'preact/hooks';
import './language.ts';
import uPlot from 'uplot';
import { useTheme } from '../app/theme.ts';
import { full } from '../format/numbers.ts';
import { type Bucket, bucketLabel } from '../format/times.ts';
import { addBuckets, bucketStart } from '../format/zones.ts';
import { texts } from '../texts/en.ts';
import { colorVariable, resolveColor } from './colors.ts';
import { alone } from './lone-points.ts';
import { labelledBuckets, timeLabels } from './time-axis.ts';

export interface Series {
  id: string;
  label: string;
  /** One for each time; null where there is no value. */
  values: (number | null)[];
  /** Position in the fixed order of hues; -1 for what is left over. */
  hue: number;
}

export interface TimeChartProps {
  label: string;
  /** Starts of the buckets, in seconds. */
  times: number[];
  series: Series[];
  kind: 'bars' | 'lines';
  fromMs: number;
  toMs: number;
  zone: string;
  bucket: Bucket;
  height?: number;
  format: (value: number) => string;
  /** Formats the labels of the axis together; one by one with `format` otherwise. */
  formatAxis?: ((values: number[]) => string[]) | undefined;
  /** Distances that the lines of the axis may have; 1, 2, 2.5 and 5 times a power of ten otherwise. */
  steps?: number[] | undefined;
  exact?: (value: number) => string;
  onZoom?: (fromMs: number, toMs: number) => void;
  onSeries?: (id: string) => void;
}

const SYNC_KEY = 'page';
const TIP_WIDTH = 240;
const MIN_ZOOM_PX = 8;

const lonePoints = (plot: uPlot, index: number): number[] => alone(plot.data[index] ?? []);

/** Bars are stacked: each is drawn from zero up to the sum of those below it, the tallest first. */
function stack(series: Series[]): (number | null)[][] {
  const sums: number[] = [];
  return series.map(({ values }) =>
    values.map((value, index) => {
      const sum = (sums[index] ?? 0) + (value ?? 0);
      sums[index] = sum;
      return sum;
    }),
  );
}

interface Tip {
  index: number;
  left: number;
}

export function TimeChart(props: TimeChartProps) {
  const { times, series, kind, fromMs, toMs, zone, bucket, height = 200, format, formatAxis, exact = full } = props;
  const { steps } = props;
  const holder = useRef<HTMLDivElement>(null);
  const [tip, setTip] = useState<Tip>();
  const { dark } = useTheme();
  const zoom = useRef(props.onZoom);
  zoom.current = props.onZoom;

  useEffect(() => {
    const element = holder.current;
    if (!element) return;
    const drawn = kind === 'bars' ? stack(series).toReversed() : series.map(({ values }) => values);
    const ordered = kind === 'bars' ? series.toReversed() : series;
    const [muted, line] = [resolveColor('--muted'), resolveColor('--line')];
    const axis = { stroke: muted, font: '12px system-ui, sans-serif', ticks: { show: false } };
    // Buckets at the ends may reach beyond the range: they are drawn whole. Each is drawn at its middle, so that the nearest
    // point under the cursor is that of the bucket.
    const startsMs = times.map((time) => time * 1000);
    const endsMs = startsMs.map((start, index) => startsMs[index + 1] ?? addBuckets(start, bucket, 1, zone));
    const middles = startsMs.map((start, index) => (start + (endsMs[index] ?? start)) / 2000);
    const [firstMs, lastMs] = [Math.min(fromMs, startsMs[0] ?? fromMs), Math.max(toMs, endsMs.at(-1) ?? toMs)];
    let labelled: number[] = [];
    let hovered = false;
    const chart = new uPlot(
      {
        width: element.clientWidth,
        height,
        // On the right, half of the last label of the time axis.
        padding: [8, 24, 0, 0],
        legend: { show: false },
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone),
        cursor: {
          sync: { key: SYNC_KEY, scales: ['x', null] },
          drag: { x: true, y: false, setScale: false },
          points: { show: kind === 'lines' },
          y: false,
        },
        scales: {
          x: { time: true, range: () => [firstMs / 1000, lastMs / 1000] },
          y: { range: (_chart, _min, max) => [0, max > 0 ? max * 1.08 : 1] },
        },
        axes: [
          {
            ...axis,
            grid: { show: false },
            size: 34,
            gap: 10,
            splits: (plot) => {
              labelled = labelledBuckets(startsMs, bucket, zone, plot.width);
              return labelled.map((index) => middles[index] ?? 0);
            },
            values: () =>
              timeLabels(
                labelled.map((index) => startsMs[index] ?? 0),
                bucket,
                zone,
              ),
          },
          {
            ...axis,
            grid: { stroke: line, width: 1 },
            size: (_chart, labels) => 14 + Math.max(4, ...(labels ?? []).map((label) => label.length)) * 7,
            space: 36,
            ...(steps && { incrs: steps }),
            values: (_chart, splits) => formatAxis?.(splits) ?? splits.map((value) => format(value)),
          },
        ],
        series: [
          {},
          ...ordered.map(({ hue, label }) => {
            const color = resolveColor(colorVariable(hue));
            return kind === 'bars'
              ? {
                  label,
                  stroke: color,
                  fill: color,
                  width: 0,
                  points: { show: false },
                  paths: uPlot.paths.bars?.({ size: [0.82, 48] }) as uPlot.Series.PathBuilder,
                }
              : {
                  label,
                  stroke: color,
                  width: 1.75,
                  spanGaps: false,
                  points: { show: true, size: 5, filter: lonePoints },
                };
          }),
        ],
        hooks: {
          setCursor: [
            (plot) => {
              const { idx, left = 0 } = plot.cursor;
              setTip(hovered && idx !== null && idx !== undefined ? { index: idx, left } : undefined);
            },
          ],
          setSelect: [
            (plot) => {
              const { left, width } = plot.select;
              plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              if (width < MIN_ZOOM_PX) return;
              // Whole buckets: a part of a day would look like a bad day.
              const from = bucketStart(plot.posToVal(left, 'x') * 1000, bucket, zone);
              const last = bucketStart(plot.posToVal(left + width, 'x') * 1000, bucket, zone);
              zoom.current?.(Math.max(from, firstMs), Math.min(addBuckets(last, bucket, 1, zone), lastMs));
            },
          ],
        },
      },
      [middles, ...drawn] as uPlot.AlignedData,
      element,
    );
    const enter = () => {
      hovered = true;
    };
    const leave = () => {
      hovered = false;
      setTip(undefined);
    };
    chart.over.addEventListener('mouseenter', enter);
    chart.over.addEventListener('mouseleave', leave);
    const resize = new ResizeObserver(() => {
      if (element.clientWidth > 0 && element.clientWidth !== chart.width)
        chart.setSize({ width: element.clientWidth, height });
    });
    resize.observe(element);
    return () => {
      resize.disconnect();
      chart.destroy();
    };
  }, [times, series, kind, fromMs, toMs, zone, bucket, height, format, formatAxis, steps, dark]);

  const tipTime = tip === undefined ? undefined : times[tip.index];
  const tipLeft =
    tip === undefined
      ? 0
      : tip.left > (holder.current?.clientWidth ?? 0) / 2
        ? tip.left - TIP_WIDTH + 32
        : tip.left + 72;
  return (
    <figure class="chart" aria-label={props.label}>
      <div ref={holder} class="chart-plot" style={{ height: `${height}px` }} />
      {tip !== undefined && tipTime !== undefined && (
        <div
          class="chart-tip"
          style={{ transform: `translate(${tipLeft}px, 8px)`, minWidth: '180px' }}
          aria-hidden="true"
        >
          <div class="muted">{bucketLabel(tipTime * 1000, bucket, zone)}</div>
          {series
            .filter(({ values }) => values[tip.index] !== null && (series.length < 4 || values[tip.index] !== 0))
            .toReversed()
            .map(({ id, label, hue, values }) => (
              <div key={id} class="chart-tip-row">
                <span class="swatch" style={{ background: `var(${colorVariable(hue)})` }} />
                <span class="truncate">{label}</span>
                <span class="mono">{exact(values[tip.index] ?? 0)}</span>
              </div>
            ))}
        </div>
      )}
      {series.length > 1 && <Legend series={series} {...(props.onSeries ? { onSeries: props.onSeries } : {})} />}
    </figure>
  );
}

function Legend({ series, onSeries }: { series: Series[]; onSeries?: (id: string) => void }) {
  return (
    <div class="legend">
      {series.map(({ id, label, hue }) => {
        const content = (
          <>
            <span class="swatch" style={{ background: `var(${colorVariable(hue)})` }} />
            <span class="truncate">{label}</span>
          </>
        );
        return onSeries && hue >= 0 ? (
          <button key={id} type="button" title={texts.charts.filter(label)} onClick={() => onSeries(id)}>
            {content}
          </button>
        ) : (
          <span key={id} class="legend-item">
            {content}
          </span>
        );
      })}
    </div>
  );
}
