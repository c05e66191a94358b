import { useEffect, useRef, useState } from 'preact/hooks';
import { useTheme } from '../components/theme.ts';
import { full } from '../format/numbers.ts';
import { bucketLabel } from '../format/times.ts';
import { texts } from '../texts/en/texts.ts';
import { colorOf } from './colors.ts';
import { drawPlot, type Hover, type PlotOptions } from './plot.ts';

export interface TimeChartProps extends Omit<PlotOptions, 'height' | 'onHover' | 'onZoom'> {
  label: string;
  height?: number;
  exact?: (value: number) => string;
  onZoom?: (fromMs: number, toMs: number) => void;
  onSeries?: ((id: string) => void) | undefined;
}

const TIP_WIDTH = 240;

export function TimeChart(props: TimeChartProps) {
  const { times, series, kind, fromMs, toMs, zone, bucket, height = 200, format, formatAxis, exact = full } = props;
  const { steps } = props;
  const holder = useRef<HTMLDivElement>(null);
  const [tip, setTip] = useState<Hover>();
  const { dark } = useTheme();
  const zoom = useRef(props.onZoom);
  zoom.current = props.onZoom;

  useEffect(() => {
    const element = holder.current;
    if (!element) return;
    return drawPlot(element, {
      ...{ times, series, kind, fromMs, toMs, zone, bucket, height, format, formatAxis, steps },
      onHover: setTip,
      onZoom: (from, to) => zoom.current?.(from, to),
    });
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
            .map((each) => (
              <div key={each.id} class="chart-tip-row">
                <span class="swatch" style={{ background: `var(${colorOf(each)})` }} />
                <span class="truncate">{each.label}</span>
                <span class="mono">{exact(each.values[tip.index] ?? 0)}</span>
              </div>
            ))}
        </div>
      )}
      {series.length > 1 && <Legend series={series} onSeries={props.onSeries} />}
    </figure>
  );
}

function Legend({ series, onSeries }: Pick<TimeChartProps, 'series' | 'onSeries'>) {
  return (
    <div class="legend">
      {series.map((each) => {
        const { id, label, hue } = each;
        const content = (
          <>
            <span class="swatch" style={{ background: `var(${colorOf(each)})` }} />
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
