import type { UsageBucket, UsageFigures } from '../api/types.ts';
import { texts } from '../texts/en/texts.ts';
import type { Series } from './plot.ts';

export type Metric = 'cost' | 'requests' | 'tokens' | 'prompt' | 'completion' | 'cached' | 'audio';

const VALUES: Record<Metric, (figures: UsageFigures) => number> = {
  cost: ({ cost_usd }) => cost_usd,
  requests: ({ requests }) => requests,
  tokens: ({ prompt_tokens, completion_tokens }) => prompt_tokens + completion_tokens,
  prompt: ({ prompt_tokens }) => prompt_tokens,
  completion: ({ completion_tokens }) => completion_tokens,
  cached: ({ cache_read_tokens }) => cache_read_tokens,
  audio: ({ audio_seconds }) => audio_seconds,
};

/** The metric of an address. A name that is none means the first. */
export const readMetric = (name: string | null): Metric =>
  name !== null && Object.hasOwn(VALUES, name) ? (name as Metric) : 'cost';

export const metricValue = (figures: UsageFigures, metric: Metric): number => VALUES[metric](figures);

export type Group = '' | 'model' | 'key' | 'region' | 'account';

/** Which group a bucket belongs to, and what people call it. */
export function groupOf(bucket: UsageBucket, group: Group): { id: string; label: string } {
  switch (group) {
    case 'model':
      return { id: bucket.model ?? '', label: bucket.model ?? '' };
    case 'key':
      return { id: bucket.key ?? '', label: bucket.key_name ?? bucket.key ?? '' };
    case 'region':
      return { id: bucket.region ?? '', label: bucket.region ?? '' };
    case 'account':
      return { id: bucket.account ?? '', label: bucket.account_name ?? bucket.account ?? '' };
    default:
      return { id: '', label: '' };
  }
}

export interface GroupTotal extends UsageFigures {
  id: string;
  label: string;
}

const FIGURES = [
  'prompt_tokens',
  'completion_tokens',
  'cache_read_tokens',
  'audio_seconds',
  'requests',
  'cost_usd',
] as const;

/** Sums of money are rounded to the nano-dollar: adding floats would show digits that no ledger row has. */
const round = (usd: number) => Math.round(usd * 1e9) / 1e9;

export function groupTotals(buckets: UsageBucket[], group: Group): GroupTotal[] {
  const totals = new Map<string, GroupTotal>();
  for (const bucket of buckets) {
    const { id, label } = groupOf(bucket, group);
    const total = totals.get(id) ?? {
      id,
      label,
      prompt_tokens: 0,
      completion_tokens: 0,
      cache_read_tokens: 0,
      audio_seconds: 0,
      requests: 0,
      cost_usd: 0,
    };
    for (const figure of FIGURES) total[figure] += bucket[figure];
    total.cost_usd = round(total.cost_usd);
    totals.set(id, total);
  }
  return [...totals.values()];
}

export interface SeriesOptions {
  group: Group;
  metric: Metric;
  /** Charts of one page rank by the same metric, so that a group keeps its hue. */
  rankBy?: Metric;
  startsMs: number[];
  most?: number;
}

/** The largest groups get a hue each, in order of size; the others share one. */
export function groupSeries(
  buckets: UsageBucket[],
  { group, metric, rankBy = metric, startsMs, most = 7 }: SeriesOptions,
): Series[] {
  const positions = new Map(startsMs.map((start, index) => [start, index]));
  const ranked = groupTotals(buckets, group)
    .map((total) => ({ id: total.id, label: total.label, value: metricValue(total, rankBy) }))
    .filter(({ value }) => value > 0 || group === '')
    .toSorted((left, right) => right.value - left.value);
  const [own, others] = [ranked.slice(0, most), ranked.slice(most)];
  const empty = () => startsMs.map(() => 0);
  const series = new Map<string, Series>(
    own.map(({ id, label }, hue) => [
      id,
      { id, label: group === '' ? (texts.usage.metrics[metric] ?? '') : label, hue, values: empty() },
    ]),
  );
  const rest: Series = { id: '…', label: `${texts.figures.other} (${others.length})`, hue: -1, values: empty() };
  for (const bucket of buckets) {
    const index = positions.get(Date.parse(bucket.start));
    if (index === undefined) continue;
    const values = (series.get(groupOf(bucket, group).id) ?? rest).values;
    values[index] = (values[index] ?? 0) + metricValue(bucket, metric);
  }
  // Ranked by another metric, a group may have nothing of this one.
  const filled = [...series.values()].filter(({ values }) => group === '' || values.some((value) => value !== 0));
  return [...filled, ...(others.length > 0 ? [rest] : [])];
}
