import type { Modality } from '../domain/model.ts';
import { type Consumption, consumptionOf, costNanoUsd } from '../domain/pricing.ts';
import type { Principal } from '../domain/principal.ts';
import type { CallContext, EngineLease, EngineModel, Priority } from '../engines/engine.ts';
import { ApiError } from '../errors/api-error.ts';
import type { Clock } from '../ports/clock.ts';
import type { CatalogService, ResolvedModel } from './catalog.ts';
import type { InteractiveLoad } from './interactive-load.ts';
import type { LimitedSeries } from './limit-series.ts';
import type { BudgetWarning, LimitStatus, Limits } from './limits.ts';
import type { Metered, Metering } from './metering.ts';

/** The caller and the circumstances of a request. Created by a route or by the batch runner. */
export interface InferenceCall {
  requestId: string;
  principal: Principal;
  /** `X-Service-Region` */
  regionPin: string | undefined;
  signal: AbortSignal;
  priority: Priority;
  /** As recorded in the ledger, for example `/v1/embeddings`. */
  endpoint: string;
  /**
   * A whole answer is billed under this id, at most once. Default: the request id, unless the request may run again after a crash.
   * Partial answers are never billed under it, because their row would replace the row of the whole answer of a later run.
   */
  billingId?: string | undefined;
  /**
   * Partial answers are not billed: the client does not get them, because the request runs again or is reported as failed.
   * `unless cancelled`: a client that cancels pays for what it caused.
   */
  wholeAnswersOnly?: boolean | 'unless cancelled' | undefined;
  discountPercent?: number | undefined;
  /** Called once, when the limits have admitted or refused the request and before any work. */
  onDecided?: ((facts: AdmissionFacts) => void) | undefined;
  /** Called with what is billed, also for a partial answer. */
  onSettled?: ((used: Consumption, billed: BillingFacts) => void) | undefined;
  /** Called for each call to an upstream that has ended. */
  onAttempt?: CallContext['onAttempt'];
  /** Called when everything about the request has ended. A cancelled one ends after its client has left. */
  onEnded?: (() => void) | undefined;
}

export interface BillingFacts {
  region: string;
  costNanoUsd: number;
  firstTokenMs: number | null;
}

export interface ModelLimitStatus extends LimitStatus {
  slug: string;
}

export interface AdmissionFacts extends ModelLimitStatus {
  version: string;
  deprecatedAt: number | null;
  budgetWarning?: BudgetWarning | undefined;
}

/** The engine for one admitted request, and how to bill it. */
export interface InferenceSession {
  engine: EngineModel;
  context: CallContext;
  /** Milliseconds since the request was admitted. */
  elapsedMs(): number;
  /**
   * Writes the consumption to the ledger and resolves when it is durable. The answer must not end before. Only the first call
   * counts. A session that is never settled is not billed.
   */
  settle(used: Partial<Consumption>, details?: SettleDetails): Promise<unknown>;
}

export interface SettleDetails {
  /** 200 unless the answer is partial. */
  status?: number | undefined;
  /** For the token limit, where something else than tokens is billed. */
  limitTokens?: number | undefined;
  region?: string | undefined;
  firstTokenMs?: number | undefined;
}

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

export interface InferenceDependencies {
  catalog: CatalogService;
  limits: Limits;
  metering: Metering;
  engines: {
    acquire(
      model: ResolvedModel,
      context: CallContext,
      regionPin: string | undefined,
    ): EngineLease | Promise<EngineLease>;
  };
  load: Pick<InteractiveLoad, 'enter' | 'leave'>;
  region: string;
  /** The limits of batch lines are the interactive ones times this factor. */
  batchLimitFactor: number;
  /** For durations only. */
  clock: Clock;
}

const CANCELLED = 499;
const isWhole = (status: number): boolean => status >= 200 && status < 300;

const isFree = ({ wholeAnswersOnly }: InferenceCall, status: number): boolean =>
  !isWhole(status) && (wholeAnswersOnly === 'unless cancelled' ? status !== CANCELLED : wholeAnswersOnly === true);

export function createInference(dependencies: InferenceDependencies): InferenceService {
  const { catalog, limits, metering, engines, load, region: ownRegion, batchLimitFactor, clock } = dependencies;
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
    let limitTokens = 0;
    let settled: Promise<Metered | undefined> | undefined;

    const record = (used: Consumption, details: SettleDetails, leaseRegion: string): NonNullable<typeof settled> => {
      const { status = 200 } = details;
      limitTokens = details.limitTokens ?? used.promptTokens + used.completionTokens;
      if (isFree(call, status)) return Promise.resolve(undefined);
      const region = details.region ?? leaseRegion;
      const { discountPercent, onSettled } = call;
      onSettled?.(used, {
        region,
        costNanoUsd: costNanoUsd(used, entry.pricing, discountPercent),
        firstTokenMs: details.firstTokenMs ?? null,
      });
      return metering.record({
        billingId: isWhole(status) ? (call.billingId ?? call.requestId) : call.requestId,
        requestId: call.requestId,
        accountId: call.principal.account.id,
        keyId: call.principal.key.id,
        model: entry.slug,
        version: version.version,
        region,
        endpoint: call.endpoint,
        used,
        pricing: entry.pricing,
        discountPercent,
        status,
        durationMs: clock.now() - startedAt,
        firstTokenMs: details.firstTokenMs,
      });
    };

    try {
      call.onDecided?.(facts);
      const context = contextOf(call);
      let lease: EngineLease | undefined;
      if (call.priority === 'interactive') load.enter();
      try {
        const acquired = engines.acquire(model, context, model.regionPin);
        lease = acquired instanceof Promise ? await acquired : acquired;
        const { engine, region } = lease;
        return await work({
          engine,
          context,
          elapsedMs: () => clock.now() - startedAt,
          settle(used, details = {}) {
            settled ??= record(consumptionOf(used), details, region);
            return settled;
          },
        });
      } finally {
        if (call.priority === 'interactive') load.leave();
        lease?.[Symbol.dispose]();
      }
    } finally {
      let charge: Metered | undefined;
      try {
        charge = await settled;
      } catch {
        // The work has failed with this error already, and nothing was billed.
      }
      const counted = admission.settle({ tokens: limitTokens, charge: charge?.isNew ? charge : undefined });
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
