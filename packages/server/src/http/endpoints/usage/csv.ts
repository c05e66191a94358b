import {
  DIMENSIONS,
  type DimensionLabel,
  MEASURE_NAMES,
  MEASURES,
  type SeriesNames,
} from '@baobab/core/domain/measures.ts';
import { usdText } from '@baobab/core/domain/money.ts';
import type { UsageBucket, UsageReport } from '../../../services/usage/usage.ts';

/** Spreadsheets run a cell that begins like a formula, so it gets an apostrophe. */
function cell(value: string | number): string {
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** One line for each bucket, money to the nano-dollar. The groups that are not listed are called `other`. */
export function usageToCsv(
  { window, buckets }: Pick<UsageReport, 'window' | 'buckets'>,
  { isFirst = true } = {},
): string {
  const groups = window.groupBy.flatMap((name): { field: string; property: keyof SeriesNames | DimensionLabel }[] => {
    const { id, label } = DIMENSIONS[name];
    const column = { field: name, property: id };
    return label === null ? [column] : [column, { field: `${name}_name`, property: label }];
  });
  const columns: Record<string, (bucket: UsageBucket) => string | number> = {
    start: ({ start }) => start,
    end: ({ end }) => end,
    ...Object.fromEntries(
      groups.map(({ field, property }) => [
        field,
        (bucket: UsageBucket) => (bucket.isOther ? 'other' : (bucket[property] ?? '')),
      ]),
    ),
    requests: ({ requests }) => requests,
    ...Object.fromEntries(
      MEASURE_NAMES.map((name) => [MEASURES[name].wireName, (bucket: UsageBucket) => bucket[name]]),
    ),
    cost_usd: ({ costNanoUsd }) => usdText(costNanoUsd),
  };
  const values = Object.values(columns);
  const lines = buckets.map((bucket) => values.map((value) => cell(value(bucket))).join(','));
  return [...(isFirst ? [Object.keys(columns).join(',')] : []), ...lines].map((line) => `${line}\r\n`).join('');
}
