import type { PerformanceReport } from '../../api/types.ts';
import type { Series } from '../../charts/plot.ts';
import { texts } from '../../texts/en/texts.ts';

type Buckets = PerformanceReport['buckets'];

const byStart = (buckets: Buckets) => new Map(buckets.map((bucket) => [Date.parse(bucket.start), bucket]));

/** Green for what worked, amber and red hues only for what did not. */
const OUTCOMES = [
  { id: 'succeeded', label: texts.figures.succeeded, hue: 0 },
  { id: 'cancelled', label: texts.figures.cancelled, hue: -1 },
  { id: 'client_errors', label: texts.figures.clientErrors, hue: 5 },
  { id: 'limited', label: texts.figures.limited, hue: 1 },
  { id: 'server_errors', label: texts.figures.serverErrors, hue: 3 },
] as const;

export function outcomeSeries(buckets: Buckets, starts: number[]): Series[] {
  const known = byStart(buckets);
  return OUTCOMES.map(({ id, label, hue }) => ({
    id,
    label,
    hue,
    values: starts.map((start) => known.get(start)?.[id] ?? 0),
  })).filter(({ id, values }) => id === 'succeeded' || values.some((value) => value > 0));
}

const PERCENTILES = ['p50', 'p90', 'p99'] as const;

export function percentileSeries(buckets: Buckets, starts: number[], field: 'latency_ms' | 'first_token_ms'): Series[] {
  const known = byStart(buckets);
  return PERCENTILES.map((percentile, index) => ({
    id: percentile,
    label: percentile,
    hue: [0, 2, 1][index] ?? 0,
    values: starts.map((start) => known.get(start)?.[field]?.[percentile] ?? null),
  }));
}
