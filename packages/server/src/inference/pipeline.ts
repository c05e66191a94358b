import type { Modality, ModelEntry, ResolvedModel } from '@baobab/core/domain/model.ts';
import { type Consumption, consumptionOf, costNanoUsd } from '@baobab/core/domain/pricing.ts';
import type { Account, Principal } from '@baobab/core/domain/principal.ts';
import type { CallContext, EngineLease } from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Metered, Metering } from '../metering/metering.ts';
import type { InferenceCall, ModelLimitStatus } from './call.ts';
import type { Limits } from './limits/limits.ts';
import type { LimitedSeries } from './limits/series.ts';
import { BilledSession, type InferenceSession } from './session.ts';

export type { AdmissionFacts, InferenceCall } from './call.ts';
export type { InferenceSession } from './session.ts';

export interface InferenceEstimate {
  /** Taken from the token limit at once and corrected at the end. */
  tokens: number;
  /** The most that is expected. Its price is reserved in the budgets until the real one is known. */
  used: Partial<Consumption>;
}

export interface InferenceService {
  /** Checks rights, modality and region. Throws the error for the client. */
  resolve(caller: Pick<InferenceCall, 'principal' | 'regionPin'>, reference: string, modality: Modality): ResolvedModel;
  /** Checks the limits, waits for an engine and runs the work with it. */
  run<T>(
    call: InferenceCall,
    request: { model: ResolvedModel; estimate: InferenceEstimate },
    work: (session: InferenceSession) => Promise<T>,
  ): Promise<T>;
  /** Throws 403 when the key may not use the model or the region. All other errors are left to the request itself. */
  checkRights(caller: Pick<InferenceCall, 'principal' | 'regionPin'>, reference: string): void;
  /** The caller's rate limits for a model; undefined when a request for it would be refused before its limits. */
  limitStatus(
    caller: Pick<InferenceCall, 'principal' | 'regionPin'>,
    reference: string,
  ): Promise<ModelLimitStatus | undefined>;
  /** Resolves when no request runs and everything used is in the ledger. */
  idle(): Promise<void>;
}

/** What the pipeline asks of the catalog. */
export interface ModelLookup {
  /** Throws 404 for models that cannot be used. */
  get(reference: string, account: Account): { entry: ModelEntry };
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
  region: string;
  /** The limits of batch lines are the interactive ones times this factor. */
  batchLimitFactor: number;
  /** For durations only. */
  clock: Clock;
}

export function createInference(dependencies: InferenceDependencies): InferenceService {
  const { catalog, limits, metering, engines, region: ownRegion, batchLimitFactor, clock } = dependencies;
  let running = 0;
  const onIdle: (() => void)[] = [];

  const seriesOf = (principal: Principal, { entry, regionPin }: ResolvedModel): LimitedSeries => ({
    principal,
    model: entry.slug,
    modality: entry.modality,
    modelLimits: entry.limits,
    // The requested region. The one that serves is chosen after the limits, and changes with load and failures.
    region: regionPin ?? ownRegion,
  });

  const admit = (call: InferenceCall, model: ResolvedModel, estimate: InferenceEstimate) =>
    limits.admit({
      ...seriesOf(call.principal, model),
      admissionId: call.requestId,
      // Batches do not count against the interactive limits.
      batchFactor: call.priority === 'batch' ? batchLimitFactor : undefined,
      estimatedTokens: estimate.tokens,
      estimatedCostNanoUsd: costNanoUsd(consumptionOf(estimate.used), model.entry.pricing, call.discountPercent),
    });

  const contextOf = ({ requestId, signal, principal, priority, onAttempt }: InferenceCall): CallContext => ({
    requestId,
    signal,
    accountId: principal.account.id,
    keyId: principal.key.id,
    priority,
    onAttempt,
  });

  // One async function from the limits to the ledger: another one would add a promise to every request.
  const run: InferenceService['run'] = async (call, { model, estimate }, work) => {
    const { entry, version } = model;
    const startedAt = clock.now();
    const decided = admit(call, model, estimate);
    const admission = decided instanceof Promise ? await decided : decided;
    const { requests, tokens, budgetWarning } = admission;
    const facts = {
      slug: entry.slug,
      version: version.version,
      deprecatedAt: version.deprecatedAt,
      requests,
      tokens,
      budgetWarning,
    };
    if (!admission.admitted) {
      call.onDecided?.(facts);
      throw admission.error;
    }
    let session: BilledSession | undefined;
    try {
      call.onDecided?.(facts);
      const context = contextOf(call);
      let lease: EngineLease | undefined;
      try {
        const acquired = engines.acquire(model, context, model.regionPin);
        lease = acquired instanceof Promise ? await acquired : acquired;
        session = new BilledSession({ call, model, context, lease, startedAt, metering, clock });
        return await work(session);
      } finally {
        lease?.[Symbol.dispose]();
      }
    } finally {
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
  };

  /** Resolves a model of any modality. */
  function resolveAny({ principal, regionPin }: Pick<InferenceCall, 'principal' | 'regionPin'>, reference: string) {
    const { modality } = catalog.get(reference, principal.account).entry;
    return catalog.resolve(reference, { modality, regionPin, principal });
  }

  function ended(): void {
    running -= 1;
    if (running === 0) for (const resolve of onIdle.splice(0)) resolve();
  }

  return {
    resolve: ({ principal, regionPin }, reference, modality) =>
      catalog.resolve(reference, { modality, regionPin, principal }),

    run(call, request, work) {
      running += 1;
      const answer = run(call, request, work);
      const finish = () => {
        ended();
        call.onEnded?.();
      };
      answer.then(finish, finish);
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
      const { principal } = caller;
      let model: ResolvedModel;
      try {
        model = resolveAny(caller, reference);
      } catch (error) {
        if (error instanceof ApiError) return undefined;
        throw error;
      }
      return { slug: model.entry.slug, ...(await limits.status(seriesOf(principal, model))) };
    },

    async idle() {
      while (running > 0) await new Promise<void>((resolve) => onIdle.push(resolve));
    },
  };
}
