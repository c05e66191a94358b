import type { ResolvedModel } from '@baobab/core/domain/model.ts';
import { type Consumption, consumptionOf, costNanoUsd } from '@baobab/core/domain/pricing.ts';
import type { CallContext, EngineLease, EngineModel } from '@baobab/core/engine/engine.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Metered, Metering } from '../metering/metering.ts';
import type { InferenceCall } from './call.ts';

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
  /** For the token limit, where something other than tokens is billed. */
  limitTokens?: number | undefined;
  region?: string | undefined;
  firstTokenMs?: number | undefined;
}

export interface BilledSessionOptions {
  call: InferenceCall;
  model: ResolvedModel;
  context: CallContext;
  lease: EngineLease;
  startedAt: number;
  metering: Metering;
  clock: Clock;
}

const CANCELLED = 499;
const isWhole = (status: number): boolean => status >= 200 && status < 300;

const isFree = ({ wholeAnswersOnly }: InferenceCall, status: number): boolean =>
  !isWhole(status) && (wholeAnswersOnly === 'unless cancelled' ? status !== CANCELLED : wholeAnswersOnly === true);

/** A class: thousands of streams may be open. */
export class BilledSession implements InferenceSession {
  readonly engine: EngineModel;
  readonly context: CallContext;
  /** For the token limit. */
  limitTokens = 0;
  /** Undefined: nothing to bill yet. */
  settled: Promise<Metered | undefined> | undefined;
  readonly #options: BilledSessionOptions;

  constructor(options: BilledSessionOptions) {
    this.engine = options.lease.engine;
    this.context = options.context;
    this.#options = options;
  }

  elapsedMs(): number {
    return this.#options.clock.now() - this.#options.startedAt;
  }

  settle(used: Partial<Consumption>, details: SettleDetails = {}): Promise<unknown> {
    this.settled ??= this.#record(consumptionOf(used), details);
    return this.settled;
  }

  #record(used: Consumption, details: SettleDetails): Promise<Metered | undefined> {
    const { call, model, lease, metering } = this.#options;
    const { entry, version } = model;
    const { status = 200 } = details;
    this.limitTokens = details.limitTokens ?? used.promptTokens + used.completionTokens;
    if (isFree(call, status)) return Promise.resolve(undefined);
    const region = details.region ?? lease.region;
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
      durationMs: this.elapsedMs(),
      firstTokenMs: details.firstTokenMs,
    });
  }
}
