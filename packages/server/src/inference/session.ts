import { type Consumption, consumptionOf } from '@baobab/core/domain/measures.ts';
import type { ResolvedModel } from '@baobab/core/domain/model.ts';
import { costNanoUsd } from '@baobab/core/domain/pricing.ts';
import type { CallContext, EngineLease, EngineModel } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Metered, Metering } from '../metering/metering.ts';
import type { InferenceCall } from './call.ts';

const ABILITIES = { chat: 'chat', embedding: 'embed', rerank: 'rank', transcription: 'transcribe' } as const;
type Capability = keyof typeof ABILITIES;

/** The engine of one model for an admitted request, and the bill if that model answers. */
export interface InferenceSession {
  readonly context: CallContext;
  /** Throws 503 when the engine of the model does not have it. */
  capability<Kind extends Capability>(kind: Kind): NonNullable<EngineModel[Kind]>;
  /** The model has begun to answer. Only the first call counts. */
  noteFirstToken(): void;
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
  readonly context: CallContext;
  /** For the token limit. */
  limitTokens = 0;
  /** Undefined: nothing to bill yet. */
  settled: Promise<Metered | undefined> | undefined;
  readonly #options: BilledSessionOptions;
  #firstTokenMs: number | undefined;

  constructor(options: BilledSessionOptions) {
    this.context = options.context;
    this.#options = options;
  }

  /** No other model may answer any more. */
  get hasAnswered(): boolean {
    return this.settled !== undefined || this.#firstTokenMs !== undefined;
  }

  capability<Kind extends Capability>(kind: Kind): NonNullable<EngineModel[Kind]> {
    const { lease, model } = this.#options;
    const found = lease.engine[kind];
    if (found === undefined) throw errors.modelUnavailable(model.entry.slug, `its engine cannot ${ABILITIES[kind]}`);
    return found as NonNullable<EngineModel[Kind]>;
  }

  noteFirstToken(): void {
    this.#firstTokenMs ??= this.#elapsedMs();
  }

  settle(used: Partial<Consumption>, details: SettleDetails = {}): Promise<unknown> {
    this.settled ??= this.#record(consumptionOf(used), details);
    return this.settled;
  }

  /** Since the request was admitted. */
  #elapsedMs(): number {
    return this.#options.clock.now() - this.#options.startedAt;
  }

  #record(used: Consumption, details: SettleDetails): Promise<Metered | undefined> {
    const { call, model, lease, metering } = this.#options;
    const { slug, pricing } = model.entry;
    const { version } = model.version;
    const { status = 200, region = lease.region } = details;
    const { discountPercent, observer } = call;
    this.limitTokens = details.limitTokens ?? used.promptTokens + used.completionTokens;
    if (isFree(call, status)) return Promise.resolve(undefined);
    observer?.settled?.({
      slug,
      version,
      region,
      used,
      costNanoUsd: costNanoUsd(used, pricing, discountPercent),
      firstTokenMs: this.#firstTokenMs ?? null,
    });
    return metering.record({
      billingId: isWhole(status) ? (call.billingId ?? call.requestId) : call.requestId,
      requestId: call.requestId,
      accountId: call.principal.account.id,
      keyId: call.principal.key.id,
      model: slug,
      version,
      region,
      endpoint: call.endpoint,
      used,
      pricing,
      discountPercent,
      status,
      durationMs: this.#elapsedMs(),
      firstTokenMs: this.#firstTokenMs,
    });
  }
}
