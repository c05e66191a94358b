import { Counter, type Registry } from 'prom-client';
import type { Metering } from '../services/metering.ts';

/** Counts what goes into the ledger, so that Prometheus and the usage report can be held against each other. */
export function countedMetering(metering: Metering, registry: Registry): Metering {
  const registers = [registry];
  const labelNames = ['model', 'region'] as const;
  const counter = (name: string, help: string) => new Counter({ name, help, labelNames, registers });
  const requests = counter('baobab_billed_requests_total', 'Requests in the ledger');
  const prompt = counter('baobab_billed_prompt_tokens_total', 'Prompt tokens in the ledger, cached ones among them');
  const completion = counter('baobab_billed_completion_tokens_total', 'Completion tokens in the ledger');
  const cached = counter('baobab_billed_cache_read_tokens_total', 'Prompt tokens that came from a cache');
  const audio = counter('baobab_billed_audio_seconds_total', 'Seconds of audio in the ledger');
  const cost = counter('baobab_billed_nano_usd_total', 'Spend in billionths of a dollar');
  return {
    get waiting() {
      return metering.waiting;
    },
    async record(request) {
      const metered = await metering.record(request);
      const labels = { model: request.model, region: request.region };
      requests.inc(labels);
      prompt.inc(labels, request.used.promptTokens);
      completion.inc(labels, request.used.completionTokens);
      cached.inc(labels, request.used.cacheReadTokens);
      audio.inc(labels, request.used.audioSeconds);
      cost.inc(labels, metered.costNanoUsd);
      return metered;
    },
  };
}
