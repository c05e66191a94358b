import './language.ts';
import uPlot from 'uplot';
import type { Bucket } from '../format/times.ts';
import { addBuckets, bucketStart } from '../format/zones.ts';
import { colorOf, resolveColor } from './colors.ts';
import { alone } from './lone-points.ts';
import { labelledBuckets, timeLabels } from './time-axis.ts';

export interface Series {
  id: string;
  label: string;
  /** One for each time; null where there is no value. */
  values: (number | null)[];
  /** Position in the fixed order of hues; -1 for what is left over. */
  hue: number;
  /** A CSS variable instead, for what has one colour everywhere. */
  color?: string;
}

export interface Hover {
  /** Index of the bucket under the cursor. */
  index: number;
  left: number;
}

export interface PlotOptions {
  /** Starts of the buckets, in seconds. */
  times: number[];
  series: Series[];
  kind: 'bars' | 'lines';
  fromMs: number;
  toMs: number;
  zone: string;
  bucket: Bucket;
  height: number;
  format: (value: number) => string;
  /** Formats the labels of the axis together; one by one with `format` otherwise. */
  formatAxis?: ((values: number[]) => string[]) | undefined;
  /** Distances that the lines of the axis may have; 1, 2, 2.5 and 5 times a power of ten otherwise. */
  steps?: number[] | undefined;
  onHover: (hover: Hover | undefined) => void;
  onZoom: (fromMs: number, toMs: number) => void;
}

const SYNC_KEY = 'page';
const MIN_ZOOM_PX = 8;

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

interface Spans {
  startsMs: number[];
  /** In seconds. */
  middles: number[];
  firstMs: number;
  lastMs: number;
}

/**
 * Buckets at the ends may reach beyond the range: they are drawn whole. Each is drawn at its middle, so that the nearest point
 * under the cursor is that of the bucket.
 */
function spansOf({ times, bucket, zone, fromMs, toMs }: PlotOptions): Spans {
  const startsMs = times.map((time) => time * 1000);
  const endsMs = startsMs.map((start, index) => startsMs[index + 1] ?? addBuckets(start, bucket, 1, zone));
  return {
    startsMs,
    middles: startsMs.map((start, index) => (start + (endsMs[index] ?? start)) / 2000),
    firstMs: Math.min(fromMs, startsMs[0] ?? fromMs),
    lastMs: Math.max(toMs, endsMs.at(-1) ?? toMs),
  };
}

const axisStyle = () => ({
  stroke: resolveColor('--muted'),
  font: '12px system-ui, sans-serif',
  ticks: { show: false },
});

function timeAxis({ bucket, zone }: PlotOptions, { startsMs, middles }: Spans): uPlot.Axis {
  let labelled: number[] = [];
  return {
    ...axisStyle(),
    grid: { show: false },
    size: 34,
    gap: 10,
    splits: (plot) => {
      labelled = labelledBuckets(startsMs, bucket, zone, plot.width);
      return labelled.map((index) => middles[index] ?? 0);
    },
    values: () => {
      const shownMs = labelled.map((index) => startsMs[index] ?? 0);
      return timeLabels(shownMs, bucket, zone);
    },
  };
}

const valueAxis = ({ steps, format, formatAxis }: PlotOptions): uPlot.Axis => ({
  ...axisStyle(),
  grid: { stroke: resolveColor('--line'), width: 1 },
  size: (_chart, labels) => 14 + Math.max(4, ...(labels ?? []).map((label) => label.length)) * 7,
  space: 36,
  ...(steps && { incrs: steps }),
  values: (_chart, splits) => formatAxis?.(splits) ?? splits.map((value) => format(value)),
});

function seriesStyle(kind: PlotOptions['kind'], each: Series): uPlot.Series {
  const { label } = each;
  const stroke = resolveColor(colorOf(each));
  if (kind === 'bars') {
    const paths = uPlot.paths.bars?.({ size: [0.82, 48] }) as uPlot.Series.PathBuilder;
    return { label, stroke, fill: stroke, width: 0, points: { show: false }, paths };
  }
  const filter = (plot: uPlot, index: number): number[] => alone(plot.data[index] ?? []);
  return { label, stroke, width: 1.75, spanGaps: false, points: { show: true, size: 5, filter } };
}

/** Draws into an element and follows its width. Returns what removes the drawing. */
export function drawPlot(element: HTMLElement, options: PlotOptions): () => void {
  const { series, kind, zone, bucket, height, onHover, onZoom } = options;
  const spans = spansOf(options);
  const { middles, firstMs, lastMs } = spans;
  const drawn = kind === 'bars' ? stack(series).toReversed() : series.map(({ values }) => values);
  const ordered = kind === 'bars' ? series.toReversed() : series;
  let hovered = false;

  const hover = ({ cursor: { idx, left = 0 } }: uPlot) =>
    onHover(hovered && idx !== null && idx !== undefined ? { index: idx, left } : undefined);
  const zoom = (plot: uPlot) => {
    const { left, width } = plot.select;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (width < MIN_ZOOM_PX) return;
    // Whole buckets: a part of a day would look like a bad day.
    const from = bucketStart(plot.posToVal(left, 'x') * 1000, bucket, zone);
    const last = bucketStart(plot.posToVal(left + width, 'x') * 1000, bucket, zone);
    onZoom(Math.max(from, firstMs), Math.min(addBuckets(last, bucket, 1, zone), lastMs));
  };

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
      axes: [timeAxis(options, spans), valueAxis(options)],
      series: [{}, ...ordered.map((each) => seriesStyle(kind, each))],
      hooks: { setCursor: [hover], setSelect: [zoom] },
    },
    [middles, ...drawn] as uPlot.AlignedData,
    element,
  );
  chart.over.addEventListener('mouseenter', () => {
    hovered = true;
  });
  chart.over.addEventListener('mouseleave', () => {
    hovered = false;
    onHover(undefined);
  });
  const resize = new ResizeObserver(() => {
    if (element.clientWidth > 0 && element.clientWidth !== chart.width)
      chart.setSize({ width: element.clientWidth, height });
  });
  resize.observe(element);
  return () => {
    resize.disconnect();
    chart.destroy();
  };
}
