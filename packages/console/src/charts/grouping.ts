import {
  DIMENSIONS,
  type DimensionName,
  MEASURE_FIELDS,
  MEASURE_NAMES,
  MEASURES,
  type MeasureName,
  NOTHING_USED,
  toFields,
} from '@baobab/core/domain/measures.ts';
import type { UsageBucket, UsageFigures } from '../api/types.ts';
import { texts } from '../texts/en/texts.ts';
import type { Series } from './plot.ts';

type Short = (typeof MEASURES)[MeasureName]['short'];
export type Metric = 'cost' | 'requests' | 'tokens' | Short;

const VALUES: Record<Metric, (figures: UsageFigures) => number> = {
  cost: ({ cost_usd }) => cost_usd,
  requests: ({ requests }) => requests,
  tokens: ({ prompt_tokens, completion_tokens }) => prompt_tokens + completion_tokens,
  ...(Object.fromEntries(
    MEASURE_NAMES.map((name) => [MEASURES[name].short, (figures: UsageFigures) => figures[MEASURES[name].wireName]]),
  ) as Record<Short, (figures: UsageFigures) => number>),
};

/** The metric of an address. An unknown name means the cost. */
export const readMetric = (name: string | null): Metric =>
  name !== null && Object.hasOwn(VALUES, name) ? (name as Metric) : 'cost';

export const metricValue = (figures: UsageFigures, metric: Metric): number => VALUES[metric](figures);

export type Group = '' | DimensionName;

/** Stands for all groups that a report does not list, and that a chart does not show. */
export const OTHERS = '…';

/** Which group a bucket belongs to, and what people call it. */
export function groupOf(bucket: UsageBucket, group: Group): { id: string; label: string } {
  if (group === '') return { id: '', label: '' };
  if (bucket.other) return { id: OTHERS, label: texts.figures.other };
  const id = bucket[group] ?? '';
  const { label } = DIMENSIONS[group];
  return { id, label: (label === null ? undefined : bucket[`${group}_name` as 'key_name']) ?? id };
}

export interface GroupTotal extends UsageFigures {
  id: string;
  label: string;
}

const FIGURES = [...MEASURE_FIELDS, 'requests', 'cost_usd'] as const;

/** Sums of money are rounded to the nano-dollar: adding floats would show digits that no ledger row has. */
const round = (usd: number) => Math.round(usd * 1e9) / 1e9;

export function groupTotals(buckets: UsageBucket[], group: Group): GroupTotal[] {
  const totals = new Map<string, GroupTotal>();
  for (const bucket of buckets) {
    const { id, label } = groupOf(bucket, group);
    const total = totals.get(id) ?? {
      id,
      label,
      ...toFields(NOTHING_USED),
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
    .filter(({ id }) => id !== OTHERS)
    // Many cost nothing: they are ranked by what else they used.
    .toSorted(
      (left, right) => metricValue(right, rankBy) - metricValue(left, rankBy) || right.requests - left.requests,
    );
  const [own, others] = [ranked.slice(0, most), ranked.slice(most)];
  const isCut = buckets.some(({ other }) => other);
  const counted = others.filter((total) => metricValue(total, metric) > 0).length;
  const restLabel = isCut ? texts.figures.other : `${texts.figures.other} (${counted})`;
  const empty = () => startsMs.map(() => 0);
  const series = new Map<string, Series>(
    own.map(({ id, label }, hue) => [
      id,
      { id, label: group === '' ? texts.usage.metrics[metric] : label, hue, values: empty() },
    ]),
  );
  const rest: Series = { id: OTHERS, label: restLabel, hue: -1, values: empty() };
  for (const bucket of buckets) {
    const index = positions.get(Date.parse(bucket.start));
    if (index === undefined) continue;
    const values = (series.get(groupOf(bucket, group).id) ?? rest).values;
    values[index] = (values[index] ?? 0) + metricValue(bucket, metric);
  }
  // Ranked by another metric, a group may have nothing of this one.
  return [...series.values(), rest].filter(
    ({ id, values }) => (group === '' && id !== OTHERS) || values.some((value) => value !== 0),
  );
}
