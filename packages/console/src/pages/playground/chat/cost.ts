import type { Model } from '../../../api/types.ts';

export interface BilledUnits {
  prompt_tokens?: number;
  completion_tokens?: number;
  cached_tokens?: number;
  seconds?: number;
}

/** What a request costs by the prices of its model, in dollars. The ledger has the final word. */
export function costOf(model: Model | undefined, units: BilledUnits): number | undefined {
  if (!model) return undefined;
  const { prompt_per_million, completion_per_million, cache_read_per_million, audio_per_minute } = model.pricing;
  const cached = cache_read_per_million === null ? 0 : (units.cached_tokens ?? 0);
  const fresh = (units.prompt_tokens ?? 0) - cached;
  return (
    (fresh * (prompt_per_million ?? 0) +
      cached * (cache_read_per_million ?? 0) +
      (units.completion_tokens ?? 0) * (completion_per_million ?? 0)) /
      1e6 +
    ((units.seconds ?? 0) * (audio_per_minute ?? 0)) / 60
  );
}
