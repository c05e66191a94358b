import type { Consumption } from '@baobab/core/domain/measures.ts';
import type { Principal } from '@baobab/core/domain/principal.ts';
import type { AttemptObserver, Priority } from '@baobab/core/engine/engine.ts';
import type { BudgetWarning, LimitStatus } from './limits/admission.ts';

export interface Caller {
  principal: Principal;
  /** `X-Service-Region` */
  regionPin: string | undefined;
}

/** The caller and the circumstances of a request. Created by a route or by the batch runner. */
export interface InferenceCall extends Caller {
  requestId: string;
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
  /** The answer is stored, too, before the client gets the end of it. */
  isStored?: boolean | undefined;
  discountPercent?: number | undefined;
  observer?: InferenceObserver | undefined;
}

/** Follows one request through the pipeline. `attempted` is called for each call to an upstream. */
export interface InferenceObserver extends AttemptObserver {
  /** The limits have admitted or refused the request. Called once, before any work. */
  decided?(facts: AdmissionFacts): void;
  /** The request has failed, and named this model. Also called when `decided` was not. */
  failed?(model: FailedModel): void;
  /** How many inputs were cut, if any were to be. Called before the answer is written. */
  truncated?(inputs: number): void;
  /** What is billed, also for a partial answer. Not called when nothing is. */
  settled?(bill: Bill): void;
  /** Everything about the request has ended. A cancelled one ends after its client has left. */
  ended?(): void;
}

export interface FailedModel {
  slug: string;
  version: string;
}

export interface Bill {
  /** The model that answered. */
  slug: string;
  version: string;
  region: string;
  used: Consumption;
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
