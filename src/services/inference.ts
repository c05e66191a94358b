import type { Modality, ModelEntry } from '../domain/model.ts';
import { type Consumption, costNanoUsd, NOTHING_USED } from '../domain/pricing.ts';
import type { Principal } from '../domain/principal.ts';
import type { CallContext, EngineModel, Priority } from '../engines/engine.ts';
import type { Clock } from '../ports/clock.ts';
import type { LedgerRow } from '../ports/ledger.ts';
import type { CatalogService, ResolvedModel } from './catalog.ts';

/** Who calls, from where, and until when. Made by a route or by the batch runner. */
export interface InferenceCall {
  requestId: string;
  principal: Principal;
  /** `X-Service-Region` */
  regionPin: string | undefined;
  signal: AbortSignal;
  priority: Priority;
  /** As it stands in the ledger, for example `/v1/embeddings`. */
  endpoint: string;
  /** What is billed at most once: the request id, unless a batch line may run again after a crash. */
  billingId?: string | undefined;
  discountPercent?: number | undefined;
  /** Called once, as soon as the request is admitted and before any work. */
  onAdmitted?: ((facts: AdmissionFacts) => void) | undefined;
}

/** The state of one limit, for the answer's headers. */
export interface LimitState {
  limit: number;
  remaining: number;
  resetMs: number;
}

export interface RateLimitState {
  requests: LimitState;
  tokens: LimitState;
  /** A monthly budget that is nearly spent, in words. */
  budgetWarning?: string | undefined;
}

export interface AdmissionFacts {
  slug: string;
  deprecatedAt: string | null;
  rateLimit: RateLimitState | undefined;
}

export interface Admission {
  rateLimit: RateLimitState | undefined;
  /** Corrects the estimate with what was really used and frees the place among concurrent requests. */
  settle(used: { tokens: number; costNanoUsd: number }): void;
}

/** Takes a request's share from the limits of its key; throws the 429 that applies. */
export interface Limiter {
  admit(request: { principal: Principal; entry: ModelEntry; region: string; tokens: number }): Promise<Admission>;
}

export interface EngineLease extends Disposable {
  engine: EngineModel;
  region: string;
}

/** The engine for one admitted request, and the way to close its account. */
export interface InferenceSession {
  engine: EngineModel;
  context: CallContext;
  /** Milliseconds since the request was admitted. */
  elapsedMs(): number;
  /**
   * Writes what was used to the ledger and resolves when that is durable; only then may the answer end. Only the first call
   * counts. A session that is never settled is not billed.
   */
  settle(used: Partial<Consumption>, details?: SettleDetails): Promise<void>;
}

export interface SettleDetails {
  /** 200 unless the answer was cut short. */
  status?: number | undefined;
  region?: string | undefined;
  firstTokenMs?: number | undefined;
}

export interface InferenceService {
  /** Rights, modality and region of a model; throws what a client should see. */
  resolve(call: InferenceCall, reference: string, modality: Modality): ResolvedModel;
  /**
   * Takes the request through limits and queue and runs the work with an engine. `estimatedTokens` are taken from the limit at
   * once and corrected at the end.
   */
  run<T>(
    call: InferenceCall,
    request: { model: ResolvedModel; estimatedTokens: number },
    work: (session: InferenceSession) => Promise<T>,
  ): Promise<T>;
}

export interface InferenceDependencies {
  catalog: CatalogService;
  limiter: Limiter;
  ledger: { record(row: LedgerRow): Promise<void> };
  engines: { acquire(model: ResolvedModel, context: CallContext, regionPin: string | undefined): Promise<EngineLease> };
  region: string;
  clock: Clock;
}

export function createInference(dependencies: InferenceDependencies): InferenceService {
  const { catalog, limiter, ledger, engines, region: ownRegion, clock } = dependencies;

  return {
    resolve: ({ principal, regionPin }, reference, modality) =>
      catalog.resolve(reference, { modality, regionPin, principal }),

    async run(call, { model, estimatedTokens }, work) {
      const { principal, regionPin } = call;
      const { entry, version } = model;
      const startedAt = clock.now();
      const admission = await limiter.admit({
        principal,
        entry,
        region: regionPin ?? ownRegion,
        tokens: estimatedTokens,
      });
      call.onAdmitted?.({ slug: entry.slug, deprecatedAt: version.deprecatedAt, rateLimit: admission.rateLimit });
      let spent = { tokens: 0, costNanoUsd: 0 };
      let settled: Promise<void> | undefined;
      try {
        const context: CallContext = {
          requestId: call.requestId,
          signal: call.signal,
          accountId: principal.account.id,
          keyId: principal.key.id,
          priority: call.priority,
        };
        using lease = await engines.acquire(model, context, regionPin);

        const record = async (used: Partial<Consumption>, details: SettleDetails): Promise<void> => {
          const consumption = { ...NOTHING_USED, ...used };
          const cost = costNanoUsd(consumption, entry.pricing, call.discountPercent ?? 0);
          spent = { tokens: consumption.promptTokens + consumption.completionTokens, costNanoUsd: cost };
          await ledger.record({
            ...consumption,
            billingId: call.billingId ?? call.requestId,
            requestId: call.requestId,
            time: clock.now(),
            accountId: principal.account.id,
            keyId: principal.key.id,
            model: entry.slug,
            version: version.version,
            region: details.region ?? lease.region,
            endpoint: call.endpoint,
            costNanoUsd: cost,
            pricing: entry.pricing,
            discountPercent: call.discountPercent ?? 0,
            status: details.status ?? 200,
            durationMs: clock.now() - startedAt,
            firstTokenMs: details.firstTokenMs ?? null,
          });
        };

        return await work({
          engine: lease.engine,
          context,
          elapsedMs: () => clock.now() - startedAt,
          settle: (used, details = {}) => {
            settled ??= record(used, details);
            return settled;
          },
        });
      } finally {
        admission.settle(spent);
      }
    },
  };
}
