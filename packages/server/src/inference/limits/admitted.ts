import type { Modality } from '@baobab/core/domain/model.ts';
import type { Principal } from '@baobab/core/domain/principal.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { AdmissionTicket, Counters, ExtensionAnswer } from '@baobab/core/ports/counters.ts';
import { type Budget, type Budgets, demandsOf } from './budgets.ts';
import { refusal } from './refusal.ts';
import type { Series } from './series.ts';

export interface RateStatus {
  limit: number;
  remaining: number;
  /** Until the bucket is full. */
  resetMs: number;
}

export interface BudgetWarning {
  owner: Budget['owner'];
  spentNanoUsd: number;
  limitNanoUsd: number;
  /** Percentage of the limit, rounded down. */
  percent: number;
}

export interface LimitStatus {
  requests: RateStatus;
  tokens: RateStatus;
}

export interface Decision extends LimitStatus {
  /** Set when a monthly budget has passed the configured threshold. */
  budgetWarning?: BudgetWarning | undefined;
}

export interface Settled {
  /** Really used tokens of prompt and completion. */
  tokens: number;
  /** The result of `Metering.record`. Absent when nothing was billed. */
  charge?: { costNanoUsd: number; time: number } | undefined;
}

/** What a running request needs beyond what it was admitted with. */
export interface Extension {
  tokens: number;
  costNanoUsd: number;
}

export interface AdmittedDependencies {
  counters: Counters;
  budgets: Budgets;
  clock: Clock;
  onError(error: unknown): void;
}

interface AdmittedFacts {
  ticket: AdmissionTicket;
  principal: Principal;
  modality: Modality;
  series: Series;
  limited: readonly Budget[];
  decision: Decision;
}

/** A request that the limits have admitted. A class: thousands of streams may be open. */
export class Admitted implements Decision {
  readonly admitted = true;
  readonly requests: RateStatus;
  readonly tokens: RateStatus;
  readonly budgetWarning: BudgetWarning | undefined;
  readonly #dependencies: AdmittedDependencies;
  readonly #ticket: AdmissionTicket;
  readonly #principal: Principal;
  readonly #modality: Modality;
  readonly #series: Series;
  readonly #limited: readonly Budget[];
  #isSettled = false;
  #extending: Promise<unknown> | undefined;

  constructor(dependencies: AdmittedDependencies, facts: AdmittedFacts) {
    ({ requests: this.requests, tokens: this.tokens, budgetWarning: this.budgetWarning } = facts.decision);
    this.#dependencies = dependencies;
    this.#ticket = facts.ticket;
    this.#principal = facts.principal;
    this.#modality = facts.modality;
    this.#series = facts.series;
    this.#limited = facts.limited;
  }

  /** Whether a budget has to pay for it. */
  get isBudgeted(): boolean {
    return this.#limited.length > 0;
  }

  /**
   * Takes more from the token limit and reserves more of the budgets, or takes nothing and returns the error for the client. One call at a
   * time. No promise with counters in memory.
   */
  extend(more: Extension): ApiError | undefined | Promise<ApiError | undefined> {
    const answer = this.#ask(more);
    if (!(answer instanceof Promise) && answer.kind !== 'unread') return this.#refusal(answer, more);
    const extending = this.#readAndAsk(answer, more);
    this.#extending = extending.catch(() => {});
    return extending;
  }

  /** Call it however the request ended. Only the first call counts. It never fails. */
  settle(settled: Settled): void | Promise<void> {
    if (this.#isSettled) return undefined;
    this.#isSettled = true;
    return this.#extending === undefined ? this.#settle(settled) : this.#extending.then(() => this.#settle(settled));
  }

  #settle({ tokens, charge }: Settled): void | Promise<void> {
    const { counters, budgets, clock, onError } = this.#dependencies;
    try {
      const counted = counters.settle(this.#ticket, {
        now: clock.now(),
        tokens,
        charge: charge && { budgets: budgets.charged(this.#principal, charge.time), nanoUsd: charge.costNanoUsd },
      });
      return counted instanceof Promise ? counted.catch(onError) : undefined;
    } catch (error) {
      onError(error);
      return undefined;
    }
  }

  #ask({ tokens, costNanoUsd }: Extension): ExtensionAnswer | Promise<ExtensionAnswer> {
    const { counters, clock } = this.#dependencies;
    const budgets = demandsOf(this.#limited, costNanoUsd);
    return counters.extend(this.#ticket, { now: clock.now(), tokens, budgets });
  }

  async #readAndAsk(first: ExtensionAnswer | Promise<ExtensionAnswer>, more: Extension): Promise<ApiError | undefined> {
    let answer = await first;
    while (answer.kind === 'unread') {
      await this.#dependencies.budgets.read(this.#limited, answer.budgets);
      answer = await this.#ask(more);
    }
    return this.#refusal(answer, more);
  }

  #refusal(
    answer: Exclude<ExtensionAnswer, { kind: 'unread' }>,
    { tokens, costNanoUsd }: Extension,
  ): ApiError | undefined {
    if (answer.kind === 'extended') return undefined;
    return refusal(
      { ...answer, requests: [], concurrencyExceeded: [] },
      {
        modality: this.#modality,
        series: this.#series,
        tokens,
        budgets: this.#limited,
        reserveNanoUsd: costNanoUsd,
        now: this.#dependencies.clock.now(),
      },
    );
  }
}
