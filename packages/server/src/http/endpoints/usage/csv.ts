import { usdText } from '@baobab/core/domain/money.ts';
import type { Grouping } from '@baobab/core/domain/usage-window.ts';
import type { UsageBucket, UsageReport } from '../../../services/usage/usage.ts';

export const isCsvWanted = (format: 'json' | 'csv' | undefined, accept = ''): boolean =>
  format === undefined ? accept.startsWith('text/csv') : format === 'csv';

/** Spreadsheets run a cell that begins like a formula, so it gets an apostrophe. */
function cell(value: string | number): string {
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const GROUP_CELLS: Record<Grouping, Record<string, (bucket: UsageBucket) => string>> = {
  model: { model: ({ model }) => model ?? '' },
  region: { region: ({ region }) => region ?? '' },
  key: { key: ({ keyId }) => keyId ?? '', key_name: ({ keyName }) => keyName ?? '' },
  account: { account: ({ accountId }) => accountId ?? '', account_name: ({ accountName }) => accountName ?? '' },
};

const COUNT_CELLS: Record<string, (bucket: UsageBucket) => string | number> = {
  requests: ({ requests }) => requests,
  prompt_tokens: ({ promptTokens }) => promptTokens,
  completion_tokens: ({ completionTokens }) => completionTokens,
  cache_read_tokens: ({ cacheReadTokens }) => cacheReadTokens,
  audio_seconds: ({ audioSeconds }) => audioSeconds,
  cost_usd: ({ costNanoUsd }) => usdText(costNanoUsd),
};

/** One line for each bucket, money to the nano-dollar. */
export function usageToCsv({ window, buckets }: UsageReport): string {
  const columns: Record<string, (bucket: UsageBucket) => string | number> = {
    start: ({ start }) => start,
    end: ({ end }) => end,
    ...Object.assign({}, ...window.groupBy.map((group) => GROUP_CELLS[group])),
    ...COUNT_CELLS,
  };
  const lines = buckets.map((bucket) =>
    Object.values(columns)
      .map((value) => cell(value(bucket)))
      .join(','),
  );
  return `${[Object.keys(columns).join(','), ...lines].join('\r\n')}\r\n`;
}
