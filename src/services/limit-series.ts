import type { Modality } from '../domain/model.ts';
import type { Principal } from '../domain/principal.ts';
import { type DefaultLimits, type ModelLimits, resolveLimits } from '../domain/rate-limits.ts';
import type { ConcurrencyDemand, RateBucket } from '../ports/counters.ts';

/** Requests that are counted together. */
export interface LimitedSeries {
  principal: Principal;
  /** The slug without a pin. */
  model: string;
  modality: Modality;
  region: string;
  modelLimits?: ModelLimits;
  /** Set for lines of batches: they have buckets of their own that are larger by this factor. The runner bounds how many run. */
  batchFactor?: number | undefined;
}

/** The buckets and counters of a series. Passed to the counters as they are. */
export interface Series {
  requests: { amount: 1; buckets: readonly RateBucket[] };
  tokenBuckets: readonly RateBucket[];
  concurrency: readonly ConcurrencyDemand[];
}

interface KnownSeries extends Series {
  limits: EffectiveLimits;
}

type EffectiveLimits = ReturnType<typeof resolveLimits>;

/** Series that are remembered: building one for every request would take as long as the counting itself. */
const MAX_KNOWN = 10_000;

const laneLimits = (limits: EffectiveLimits, batchFactor: number | undefined): EffectiveLimits =>
  batchFactor === undefined
    ? limits
    : { rpm: limits.rpm * batchFactor, tpm: limits.tpm * batchFactor, concurrency: null };

const areEqual = (one: EffectiveLimits, other: EffectiveLimits): boolean =>
  one.rpm === other.rpm && one.tpm === other.tpm && one.concurrency === other.concurrency;

/** Finds the limits of a request and the names they are counted under. */
export function createSeriesLookup(defaults: DefaultLimits): (request: LimitedSeries) => Series {
  const known = new Map<string, KnownSeries>();

  return ({ principal, model, region, modality, modelLimits, batchFactor }) => {
    const limits = laneLimits(resolveLimits(principal, modality, { defaults, model: modelLimits }), batchFactor);
    const lane = batchFactor === undefined ? '' : 'batch\n';
    const name = `${lane}${principal.key.originalId}\n${model}\n${region}`;
    const found = known.get(name);
    if (found !== undefined && areEqual(found.limits, limits)) return found;
    if (known.size >= MAX_KNOWN) known.clear();
    const series: KnownSeries = {
      limits,
      requests: { amount: 1, buckets: [{ id: `requests\n${name}`, perMinute: limits.rpm }] },
      tokenBuckets: [{ id: `tokens\n${name}`, perMinute: limits.tpm }],
      concurrency: [{ id: `${lane}${principal.key.originalId}`, limit: limits.concurrency }],
    };
    known.set(name, series);
    return series;
  };
}
