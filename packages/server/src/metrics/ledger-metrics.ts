import { Counter, type Registry } from 'prom-client';

const COUNTERS = {
  requests: ['baobab_billed_requests_total', 'Requests in the ledger'],
  promptTokens: ['baobab_billed_prompt_tokens_total', 'Prompt tokens in the ledger, including cached ones'],
  completionTokens: ['baobab_billed_completion_tokens_total', 'Completion tokens in the ledger'],
  cacheReadTokens: ['baobab_billed_cache_read_tokens_total', 'Prompt tokens read from a cache'],
  audioSeconds: ['baobab_billed_audio_seconds_total', 'Seconds of audio in the ledger'],
  costNanoUsd: ['baobab_billed_nano_usd_total', 'Spend in billionths of a dollar'],
} as const;

interface Series {
  labels: { model: string; region: string };
  sums: Record<keyof typeof COUNTERS, number>;
}

/** The parts of a ledger row that are counted. */
export type BilledRow = Series['labels'] & Omit<Series['sums'], 'requests'>;

/**
 * Counts ledger rows, so that Prometheus can be compared with the usage report. Sums are kept here and written out on collection:
 * updating six labelled counters for every request would cost too much.
 */
export function createLedgerMetrics(registry: Registry): (row: BilledRow) => void {
  const known = new Map<string, Series>();
  for (const kind of Object.keys(COUNTERS) as (keyof typeof COUNTERS)[]) {
    const [name, help] = COUNTERS[kind];
    new Counter({
      name,
      help,
      labelNames: ['model', 'region'] as const,
      registers: [registry],
      collect() {
        this.reset();
        for (const { labels, sums } of known.values()) this.inc(labels, sums[kind]);
      },
    });
  }

  function seriesOf(model: string, region: string): Series {
    const id = `${model}\n${region}`;
    const found = known.get(id);
    if (found !== undefined) return found;
    const sums = {
      requests: 0,
      promptTokens: 0,
      completionTokens: 0,
      cacheReadTokens: 0,
      audioSeconds: 0,
      costNanoUsd: 0,
    };
    const series = { labels: { model, region }, sums };
    known.set(id, series);
    return series;
  }

  return (row) => {
    const { sums } = seriesOf(row.model, row.region);
    sums.requests += 1;
    sums.promptTokens += row.promptTokens;
    sums.completionTokens += row.completionTokens;
    sums.cacheReadTokens += row.cacheReadTokens;
    sums.audioSeconds += row.audioSeconds;
    sums.costNanoUsd += row.costNanoUsd;
  };
}
