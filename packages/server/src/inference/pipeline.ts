import { mayAskNextModel } from '@baobab/core/domain/attempts.ts';
import { atMost, type Consumption, consumptionOf, forEachMeasure } from '@baobab/core/domain/measures.ts';
import type { Modality, ModelEntry, ModelVersion, ResolvedModel } from '@baobab/core/domain/model.ts';
import { costNanoUsd } from '@baobab/core/domain/pricing.ts';
import { type Account, hasBudget, type Principal } from '@baobab/core/domain/principal.ts';
import type { CallContext, EngineLease } from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { toClientError } from '@baobab/core/errors/store-unavailable.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { StoreHealth } from '@baobab/core/ports/store-health.ts';
import type { Metered, Metering } from '../metering/metering.ts';
import type { Caller, InferenceCall, ModelLimitStatus } from './call.ts';
import { type Decision, isOpen, Reservation, smallerFirst, withStepsOf } from './limits/admission.ts';
import type { LimitedSeries } from './limits/ceilings.ts';
import type { Limits } from './limits/limits.ts';
import { BilledSession, type InferenceSession } from './session.ts';

export interface Bounds {
  /** An estimate. Taken from the token limit at once and corrected at the end. */
  tokens: number;
  /** No request can use more, whatever an upstream says. Nothing: it is free. */
  most: Partial<Consumption>;
}

/** What a billed request does. The pipeline calls the methods in this order. */
export interface BilledWork<Result> {
  /** Undefined: of any model. */
  readonly modality: Modality | undefined;
  /** As the client sent it. */
  readonly model: string;
  /** Models that get the same request, in this order, when the one before fails without having begun to answer. */
  readonly fallbacks?: readonly string[];
  /** Throws what the client did wrong. Called again when inputs were read, which may show more, and for each fallback. */
  bound(model: ResolvedModel): Bounds;
  /**
   * What the budgets set aside until the real use is known: never less than will be used, unless the work asks for more as it goes. Called
   * after `bound`, and only if a budget pays. Default: the most.
   */
  reserve?(model: ResolvedModel): Partial<Consumption>;
  /** Reads what the engine needs besides the request, once it is admitted. It is disposed of when the engine has ended. */
  read?(model: ResolvedModel): Promise<Disposable> | undefined;
  /** Runs the work and settles what it used. Called again for each fallback. */
  run(session: InferenceSession): Promise<Result>;
}

export interface InferenceService {
  /** Checks rights, modality and region. Throws the error for the client. */
  resolve(caller: Caller, reference: string, modality: Modality): ResolvedModel;
  /** Takes a request from its model to its bill. */
  run<Result>(call: InferenceCall, work: BilledWork<Result>): Promise<Result>;
  /** Throws 403 when the key may not use the model or the region. All other errors are left to the request itself. */
  checkRights(caller: Caller, reference: string): void;
  /** The caller's rate limits for a model; undefined when a request for it would be refused before its limits. */
  limitStatus(caller: Caller, reference: string): Promise<ModelLimitStatus | undefined>;
  /** Resolves when no request runs and everything used is in the ledger. */
  idle(): Promise<void>;
}

/** What the pipeline asks of the catalog. */
export interface ModelLookup {
  /** Throws 404 for models that cannot be used. */
  get(reference: string, account: Account): { entry: ModelEntry };
  /** Like `get`, but does not throw. */
  find(reference: string, account: Account): { entry: ModelEntry; version: ModelVersion } | undefined;
  /** Checks rights, modality and region, in that order. */
  resolve(
    reference: string,
    options: { modality: Modality; regionPin: string | undefined; principal: Principal },
  ): ResolvedModel;
}

export interface InferenceDependencies {
  catalog: ModelLookup;
  limits: Limits;
  metering: Metering;
  engines: {
    acquire(
      model: ResolvedModel,
      context: CallContext,
      regionPin: string | undefined,
    ): EngineLease | Promise<EngineLease>;
  };
  store: Pick<StoreHealth, 'back'>;
  region: string;
  /** The limits of batch lines are the interactive ones times this factor. */
  batchLimitFactor: number;
  /** For durations only. */
  clock: Clock;
}

export function createInference(dependencies: InferenceDependencies): InferenceService {
  const { catalog, limits, metering, engines, store, region: ownRegion, batchLimitFactor, clock } = dependencies;
  let running = 0;
  const onIdle: (() => void)[] = [];

  const resolve: InferenceService['resolve'] = ({ principal, regionPin }, reference, modality) =>
    catalog.resolve(reference, { modality, regionPin, principal });

  /** One async function from the model to the bill: another one would add a promise to every request. */
  async function runStages<Result>(call: InferenceCall, work: BilledWork<Result>): Promise<Result> {
    // Resolve.
    const resolved = (reference: string) =>
      work.modality === undefined ? resolveAny(call, reference) : resolve(call, reference, work.modality);
    let model = resolved(work.model);
    const fallbacks = work.fallbacks?.map(resolved);

    // Count and bound.
    let bounds = work.bound(model);
    let most = consumptionOf(bounds.most);

    // Limits and reservation: all of them or none.
    const startedAt = clock.now();
    const priceOf = dearest(call, model, fallbacks);
    // What is free may run when a budget is spent.
    const isBudgeted = hasBudget(call.principal) && priceOf(most) > 0;
    let first = isBudgeted ? reservedBy(work, model, most) : undefined;
    const limited = {
      ...seriesOf(call.principal, model),
      admissionId: call.requestId,
      // Batches do not count against the interactive limits.
      batchFactor: call.priority === 'batch' ? batchLimitFactor : undefined,
      estimatedTokens: bounds.tokens,
      estimatedCostNanoUsd: first && priceOf(first),
      leastCostNanoUsd: first && priceOf(atMost(LEAST, most)),
      isOpen: first && isOpen(first, most),
    };
    const deciding = limits.admit(limited);
    let admission = deciding instanceof Promise ? await deciding : deciding;
    const affordable = admission.admitted ? undefined : admission.affordableNanoUsd;
    if (first && limited.isOpen && affordable !== undefined) {
      first = smallerFirst(first, most, (smaller) => priceOf(smaller) <= affordable);
      admission = await limits.admit({ ...limited, estimatedCostNanoUsd: priceOf(first) });
    }
    if (!admission.admitted) {
      call.observer?.decided?.(factsOf(model, admission));
      throw admission.error;
    }
    let reservation = first && new Reservation({ admitted: admission, priceOf, first });

    let inputs: Disposable | undefined;
    let session: BilledSession | undefined;
    try {
      call.observer?.decided?.(factsOf(model, admission));

      // What could not be billed does not run: it waits for the store.
      const away = store.back(call.signal);
      if (away !== undefined) await away;

      // Read inputs, and count again what they have shown.
      const reading = work.read?.(model);
      if (reading !== undefined) {
        inputs = await reading;
        const found = work.bound(model);
        most = consumptionOf(found.most);
        const all = first && withStepsOf(first, reservedBy(work, model, most), most);
        const refusal = await admission.extend({
          tokens: Math.max(0, found.tokens - bounds.tokens),
          costNanoUsd: first && all ? Math.max(0, priceOf(all) - priceOf(first)) : 0,
        });
        if (refusal !== undefined) throw refusal;
        bounds = found;
        reservation = all && new Reservation({ admitted: admission, priceOf, first: all });
      }

      // Engine.
      const context = contextOf(call, bounds);
      for (;;) {
        let lease: EngineLease | undefined;
        try {
          const acquiring = engines.acquire(model, context, model.regionPin);
          lease = acquiring instanceof Promise ? await acquiring : acquiring;
          session = new BilledSession({ call, model, context, lease, most, reservation, startedAt, metering, clock });
          return await work.run(session);
        } catch (error) {
          const next = fallbacks && mayFallBack(error, call, session) ? fallbacks.shift() : undefined;
          if (next === undefined) throw error;
          model = next;
          most = consumptionOf(work.bound(model).most);
        } finally {
          lease?.[Symbol.dispose]();
        }
      }
    } finally {
      inputs?.[Symbol.dispose]();

      // Settle: the work has written the bill, the counters follow it.
      let charge: Metered | undefined;
      try {
        charge = await session?.settled;
      } catch {
        // The work has failed with this error already, and nothing was billed.
      }
      const tokens = session?.limitTokens ?? 0;
      const counted = admission.settle({ tokens, charge: charge?.isNew ? charge : undefined });
      if (counted instanceof Promise) await counted;
    }
  }

  const seriesOf = (principal: Principal, { entry, regionPin }: ResolvedModel): LimitedSeries => ({
    principal,
    model: entry.slug,
    modality: entry.modality,
    modelLimits: entry.limits,
    // The requested region. The one that serves is chosen after the limits, and changes with load and failures.
    region: regionPin ?? ownRegion,
  });

  /** Resolves a model of any modality. */
  function resolveAny(caller: Caller, reference: string): ResolvedModel {
    return resolve(caller, reference, catalog.get(reference, caller.principal.account).entry.modality);
  }

  return {
    resolve,

    run(call, work) {
      running += 1;
      const answer = runStages(call, work);
      const finish = () => {
        running -= 1;
        if (running === 0) for (const wake of onIdle.splice(0)) wake();
        call.observer?.ended?.();
      };
      answer.then(finish, () => {
        const named = catalog.find(work.model, call.principal.account);
        if (named !== undefined) call.observer?.failed?.({ slug: named.entry.slug, version: named.version.version });
        finish();
      });
      return answer;
    },

    checkRights(caller, reference) {
      try {
        resolveAny(caller, reference);
      } catch (error) {
        if (!(error instanceof ApiError) || error.status === 403) throw error;
      }
    },

    async limitStatus(caller, reference) {
      let model: ResolvedModel;
      try {
        model = resolveAny(caller, reference);
      } catch (error) {
        if (error instanceof ApiError) return undefined;
        throw error;
      }
      return { slug: model.entry.slug, ...(await limits.status(seriesOf(caller.principal, model))) };
    },

    async idle() {
      while (running > 0) await new Promise<void>((wake) => onIdle.push(wake));
    },
  };
}

/** The price at the dearest of the models that may answer. */
function dearest(
  { discountPercent }: InferenceCall,
  { entry }: ResolvedModel,
  fallbacks: readonly ResolvedModel[] = [],
) {
  const others = fallbacks.map((fallback) => fallback.entry.pricing);
  return (used: Consumption): number => {
    let price = costNanoUsd(used, entry.pricing, discountPercent);
    for (const pricing of others) price = Math.max(price, costNanoUsd(used, pricing, discountPercent));
    return price;
  };
}

/** One of each: no request is billed less. */
const LEAST = forEachMeasure(() => 1);

const reservedBy = (work: BilledWork<unknown>, model: ResolvedModel, most: Consumption): Consumption =>
  work.reserve === undefined ? most : consumptionOf(work.reserve(model));

const contextOf = (
  { requestId, signal, principal, priority, observer }: InferenceCall,
  { tokens }: Bounds,
): CallContext => ({
  requestId,
  signal,
  accountId: principal.account.id,
  keyId: principal.key.id,
  priority,
  weight: principal.account.weight,
  work: { tokens },
  observer,
});

const factsOf = ({ entry, version }: ResolvedModel, { requests, tokens, budgetWarning }: Decision) => ({
  slug: entry.slug,
  version: version.version,
  deprecatedAt: version.deprecatedAt,
  requests,
  tokens,
  budgetWarning,
});

const mayFallBack = (error: unknown, { signal }: InferenceCall, session: BilledSession | undefined): boolean =>
  !signal.aborted && !session?.hasAnswered && mayAskNextModel(toClientError(error));
