import { addUsed, forEachMeasure, MEASURES, type MeasureName, NOTHING_USED } from '@baobab/core/domain/measures.ts';
import { Counter, type Registry } from 'prom-client';

type Sum = MeasureName | 'requests' | 'costNanoUsd';

/** Names without what all have in common, and what they count. */
const COUNTERS: Record<Sum, readonly [name: string, help: string]> = {
  requests: ['requests', 'Requests in the ledger, those of free models too'],
  ...forEachMeasure((name) => [MEASURES[name].wireName, MEASURES[name].label] as const),
  costNanoUsd: ['nano_usd', 'Spend in billionths of a dollar'],
};
const SUMS = Object.keys(COUNTERS) as readonly Sum[];

interface Series {
  labels: { model: string; region: string };
  sums: Record<Sum, number>;
}

/** The parts of a ledger row that are counted. */
export type BilledRow = Series['labels'] & Omit<Series['sums'], 'requests'>;

/**
 * Counts ledger rows, so that Prometheus can be compared with the usage report. Sums are kept here and written out on collection:
 * updating all these labelled counters for every request would cost too much.
 */
export function createLedgerMetrics(registry: Registry): (row: BilledRow) => void {
  const known = new Map<string, Series>();
  for (const sum of SUMS) {
    const [name, help] = COUNTERS[sum];
    new Counter({
      name: `baobab_billed_${name}_total`,
      help,
      labelNames: ['model', 'region'] as const,
      registers: [registry],
      collect() {
        this.reset();
        for (const { labels, sums } of known.values()) this.inc(labels, sums[sum]);
      },
    });
  }

  function seriesOf(model: string, region: string): Series {
    const id = `${model}\n${region}`;
    const found = known.get(id);
    if (found !== undefined) return found;
    const sums = { ...NOTHING_USED, requests: 0, costNanoUsd: 0 };
    const series = { labels: { model, region }, sums };
    known.set(id, series);
    return series;
  }

  return (row) => {
    const { sums } = seriesOf(row.model, row.region);
    sums.requests += 1;
    addUsed(sums, row);
    sums.costNanoUsd += row.costNanoUsd;
  };
}
