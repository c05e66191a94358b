import type { Modality } from './model.ts';
import type { Principal } from './principal.ts';

export interface RateLimits {
  /** Requests a minute. */
  rpm: number;
  /** Tokens a minute. */
  tpm: number;
}

export type DefaultLimits = Readonly<Record<Modality, RateLimits>> & {
  /** Concurrent requests of each key. 0: no limit. */
  concurrency: number;
};

/** Set in the catalog for one model. */
export type ModelLimits = { rpm?: number | undefined; tpm?: number | undefined } | undefined;

/** The first that is set applies: of the key, the account, the model, then the default of the modality. */
export function resolveLimits(
  { key, account }: Principal,
  modality: Modality,
  { defaults, model }: { defaults: DefaultLimits; model?: ModelLimits },
): RateLimits & { concurrency: number | null } {
  const concurrency = key.concurrency ?? defaults.concurrency;
  return {
    rpm: key.rpm ?? account.rpm ?? model?.rpm ?? defaults[modality].rpm,
    tpm: key.tpm ?? account.tpm ?? model?.tpm ?? defaults[modality].tpm,
    concurrency: concurrency === 0 ? null : concurrency,
  };
}
