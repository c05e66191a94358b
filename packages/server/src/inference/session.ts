import { atMost, type Consumption, consumptionOf } from '@baobab/core/domain/measures.ts';
import type { ResolvedModel } from '@baobab/core/domain/model.ts';
import { costNanoUsd } from '@baobab/core/domain/pricing.ts';
import type { CallContext, EngineLease, EngineModel, TextTokenizer } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import { countWork } from '@baobab/core/runtime/work.ts';
import type { Metered, Metering } from '../metering/metering.ts';
import type { InferenceCall } from './call.ts';
import type { Reservation } from './limits/admission.ts';

const ABILITIES = { chat: 'chat', embedding: 'embed', rerank: 'rank', transcription: 'transcribe' } as const;
type Capability = keyof typeof ABILITIES;

/** The engine of one model for an admitted request, and the bill if that model answers. */
export interface InferenceSession {
  readonly context: CallContext;
  /** Undefined: the engine of the model cannot tell its tokens. */
  readonly tokenizer: TextTokenizer | undefined;
  /** Throws 503 when the engine of the model does not have it. */
  capability<Kind extends Capability>(kind: Kind): NonNullable<EngineModel[Kind]>;
  /** What the budgets have set aside for the request. Undefined: none limits it. */
  readonly reservation: Reservation | undefined;
  /** The model has begun to answer. Only the first call counts. */
  noteFirstToken(): void;
  /** The engine runs here. Counts of others are lowered to what is possible and paid. */
  readonly countsAreTrue: boolean;
  /** Once it is settled. */
  readonly billed: Consumption | undefined;
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
  /** No run uses more, whatever an upstream says. */
  most: Consumption;
  reservation: Reservation | undefined;
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
  readonly reservation: Reservation | undefined;
  /** For the token limit. */
  limitTokens = 0;
  billed: Consumption | undefined;
  /** Undefined: nothing to bill yet. */
  settled: Promise<Metered | undefined> | undefined;
  readonly #options: BilledSessionOptions;
  #firstTokenMs: number | undefined;

  constructor(options: BilledSessionOptions) {
    this.context = options.context;
    this.reservation = options.reservation;
    this.#options = options;
  }

  /** No other model may answer any more. */
  get hasAnswered(): boolean {
    return this.settled !== undefined || this.#firstTokenMs !== undefined;
  }

  get countsAreTrue(): boolean {
    return this.#options.lease.countsAreTrue === true;
  }

  get tokenizer(): TextTokenizer | undefined {
    return this.#options.lease.engine.tokenizer;
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
    if (this.settled !== undefined) return this.settled;
    const counted = consumptionOf(used);
    this.settled = this.#bill(this.countsAreTrue ? counted : atMost(counted, this.#options.most), details);
    return this.settled;
  }

  /** Since the request was admitted. */
  #elapsedMs(): number {
    return this.#options.clock.now() - this.#options.startedAt;
  }

  #bill(used: Consumption, details: SettleDetails): Promise<Metered | undefined> {
    this.limitTokens = details.limitTokens ?? used.promptTokens + used.completionTokens;
    countWork(this.context, this.limitTokens);
    this.billed = used;
    if (isFree(this.#options.call, details.status ?? 200)) return Promise.resolve(undefined);
    const { reservation } = this;
    const covered = reservation?.cover(used) ?? true;
    return reservation === undefined || covered === true
      ? this.#record(used, details)
      : this.#recordPaid(used, covered, reservation, details);
  }

  async #recordPaid(
    used: Consumption,
    covered: boolean | Promise<boolean>,
    reservation: Reservation,
    details: SettleDetails,
  ): Promise<Metered> {
    if ((await covered) || this.countsAreTrue) return this.#record(used, details);
    await reservation.coverPart(used);
    this.billed = reservation.paidPart(used);
    return this.#record(this.billed, details);
  }

  #record(used: Consumption, details: SettleDetails): Promise<Metered> {
    const { call, model, lease, metering } = this.#options;
    const { slug, pricing } = model.entry;
    const { version } = model.version;
    const { status = 200, region = lease.region } = details;
    const { discountPercent, observer } = call;
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
      isStored: call.isStored,
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
