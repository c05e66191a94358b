import type { Consumption } from '@baobab/core/domain/pricing.ts';
import type { Principal } from '@baobab/core/domain/principal.ts';
import type { CallContext, Priority } from '@baobab/core/engine/engine.ts';
import type { BudgetWarning, LimitStatus } from './limits/limits.ts';

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
