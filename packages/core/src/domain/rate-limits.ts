import type { Modality } from './model.ts';
import type { AccountLimits } from './principal.ts';

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

/** Whose limits count. */
export interface Limited {
  key: AccountLimits;
  account: AccountLimits;
}

/** Of a key that has no limits of its own. */
export const NO_LIMITS: AccountLimits = { rpm: null, tpm: null, concurrency: null, monthlyBudgetNanoUsd: null };

export const LIMIT_SOURCES = ['key', 'account', 'model', 'default'] as const;
export type LimitSource = (typeof LIMIT_SOURCES)[number];

/** The limit that holds for a key, and where it was set. Null: not limited. */
export type AppliedLimit = { value: number; from: LimitSource } | { value: null; from: null };

/** What the limits of a deployment are when neither a key nor its account says otherwise. */
export interface LimitRules {
  defaults: DefaultLimits;
  /** Those with limits of their own. */
  models: readonly { slug: string; modality: Modality; limits: ModelLimits }[];
}

export const limitRules = (
  defaults: DefaultLimits,
  entries: readonly { slug: string; modality: Modality; limits?: ModelLimits }[],
): LimitRules => ({
  defaults,
  models: entries.flatMap(({ slug, modality, limits }) => (limits === undefined ? [] : [{ slug, modality, limits }])),
});

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
  { key, account }: Limited,
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

const UNLIMITED: AppliedLimit = { value: null, from: null };

/** The tighter of the limits of a key and of its account. */
export function appliedLimits(
  limited: Limited,
  modality: Modality,
  options: { defaults: DefaultLimits; model?: ModelLimits },
): Record<keyof LimitSet, AppliedLimit> {
  const { key, account } = resolveLimits(limited, modality, options);
  function applied(limit: keyof LimitSet): AppliedLimit {
    const [ofKey, ofAccount] = [key[limit], account[limit]];
    if (ofAccount !== null && (ofKey === null || ofAccount < ofKey)) return { value: ofAccount, from: 'account' };
    if (ofKey === null) return UNLIMITED;
    if (limited.key[limit] !== null) return { value: ofKey, from: 'key' };
    const isOfModel = limit !== 'concurrency' && options.model?.[limit] !== undefined;
    return { value: ofKey, from: isOfModel ? 'model' : 'default' };
  }
  return { rpm: applied('rpm'), tpm: applied('tpm'), concurrency: applied('concurrency') };
}

/** The lower of the two budgets, in nano-USD. */
export function appliedBudget({ key, account }: Limited): AppliedLimit {
  const [ofKey, ofAccount] = [key.monthlyBudgetNanoUsd, account.monthlyBudgetNanoUsd];
  if (ofKey !== null && (ofAccount === null || ofKey <= ofAccount)) return { value: ofKey, from: 'key' };
  return ofAccount === null ? UNLIMITED : { value: ofAccount, from: 'account' };
}
