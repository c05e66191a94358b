import { DIMENSIONS, MEASURE_NAMES, MEASURES } from '@baobab/core/domain/measures.ts';
import { usdText } from '@baobab/core/domain/money.ts';
import type { UsageBucket, UsageReport } from '../../../services/usage/usage.ts';
import { groupToWire } from './schema.ts';

export const isCsvWanted = (format: 'json' | 'csv' | undefined, accept = ''): boolean =>
  format === undefined ? accept.startsWith('text/csv') : format === 'csv';

/** Spreadsheets run a cell that begins like a formula, so it gets an apostrophe. */
function cell(value: string | number): string {
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** One line for each bucket, money to the nano-dollar. */
export function usageToCsv({ window, buckets }: UsageReport): string {
  const groups = window.groupBy.flatMap((name) =>
    DIMENSIONS[name].label === null ? [name] : [name, `${name}_name` as const],
  );
  const columns: Record<string, (bucket: UsageBucket) => string | number> = {
    start: ({ start }) => start,
    end: ({ end }) => end,
    ...Object.fromEntries(groups.map((field) => [field, (bucket: UsageBucket) => groupToWire(bucket)[field] ?? ''])),
    requests: ({ requests }) => requests,
    ...Object.fromEntries(
      MEASURE_NAMES.map((name) => [MEASURES[name].wireName, (bucket: UsageBucket) => bucket[name]]),
    ),
    cost_usd: ({ costNanoUsd }) => usdText(costNanoUsd),
  };
  const lines = buckets.map((bucket: UsageBucket) =>
    Object.values(columns)
      .map((value) => cell(value(bucket)))
      .join(','),
  );
  return `${[Object.keys(columns).join(','), ...lines].join('\r\n')}\r\n`;
}
