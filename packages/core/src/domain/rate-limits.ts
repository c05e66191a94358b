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

/** Limits that are counted together. Null: not limited. */
export interface LimitSet {
  rpm: number | null;
  tpm: number | null;
  concurrency: number | null;
}

export interface EffectiveLimits {
  /** For one key, counted for each model and region. */
  key: LimitSet;
  /** Totals over all keys and regions of the account, counted for each model. Concurrency is counted over all models. */
  account: LimitSet;
}

const orUnlimited = (concurrency: number | null): number | null => (concurrency === 0 ? null : concurrency);

/**
 * A key's own limits hold inside those of its account. A key without own limits may use all of the account's; if the account has none
 * either, the model's limits apply to the key, then the defaults of the modality.
 */
export function resolveLimits(
  { key, account }: Principal,
  modality: Modality,
  { defaults, model }: { defaults: DefaultLimits; model?: ModelLimits },
): EffectiveLimits {
  const usual = defaults[modality];
  return {
    key: {
      rpm: key.rpm ?? (account.rpm === null ? (model?.rpm ?? usual.rpm) : null),
      tpm: key.tpm ?? (account.tpm === null ? (model?.tpm ?? usual.tpm) : null),
      concurrency: orUnlimited(key.concurrency ?? defaults.concurrency),
    },
    account: { rpm: account.rpm, tpm: account.tpm, concurrency: orUnlimited(account.concurrency) },
  };
}
