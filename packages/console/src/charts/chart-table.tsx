import { full } from '../format/numbers.ts';
import { type Bucket, bucketLabel } from '../format/times.ts';
import { texts } from '../texts/en/texts.ts';
import type { Series } from './plot.ts';

export interface ChartTableProps {
  label: string;
  times: number[];
  series: Series[];
  bucket: Bucket;
  zone: string;
  exact?: (value: number) => string;
}

/** The numbers of a chart, for those who cannot see it or need them exact. Drawn when it is opened. */
export function ChartTable({ label, times, series, bucket, zone, exact = full }: ChartTableProps) {
  const filled = times
    .map((time, index) => ({ time, index }))
    .filter(({ index }) => series.some(({ values }) => (values[index] ?? 0) !== 0));
  return (
    <details class="chart-table">
      <summary>{texts.common.table}</summary>
      <section class="table-wrap" aria-label={label} {...{ tabIndex: 0 }}>
        <table class="table">
          <thead>
            <tr>
              <th scope="col">
                {texts.usage.period} ({zone})
              </th>
              {series.map(({ id, label: name }) => (
                <th key={id} scope="col" class="number">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {filled.map(({ time, index }) => (
              <tr key={time}>
                <td>{bucketLabel(time * 1000, bucket, zone)}</td>
                {series.map(({ id, values }) => (
                  <td key={id} class="number">
                    {values[index] === null ? '–' : exact(values[index] ?? 0)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </details>
  );
}
