import { type Consumption, MEASURE_NAMES, MEASURES, type MeasureName } from '@baobab/core/domain/measures.ts';
import type { Modality } from '@baobab/core/domain/model.ts';
import type { Principal } from '@baobab/core/domain/principal.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import { toClientError } from '@baobab/core/errors/store-unavailable.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { AdmissionTicket, Counters, ExtensionAnswer } from '@baobab/core/ports/counters.ts';
import { type Budget, type Budgets, demandsOf, type Series } from './ceilings.ts';
import { refusal } from './refusal.ts';

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
  /** In each of the budgets. */
  reservedNanoUsd: number;
}

/** A request that the limits have admitted. A class: thousands of streams may be open. */
export class Admitted implements Decision {
  readonly admitted = true;
  readonly requests: RateStatus;
  readonly tokens: RateStatus;
  readonly budgetWarning: BudgetWarning | undefined;
  readonly #dependencies: AdmittedDependencies;
  readonly #facts: AdmittedFacts;
  #reservedNanoUsd: number;
  #isSettled = false;
  #extending: Promise<unknown> | undefined;

  constructor(dependencies: AdmittedDependencies, decision: Decision, facts: AdmittedFacts) {
    ({ requests: this.requests, tokens: this.tokens, budgetWarning: this.budgetWarning } = decision);
    this.#dependencies = dependencies;
    this.#facts = facts;
    this.#reservedNanoUsd = facts.reservedNanoUsd;
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
      const counted = counters.settle(this.#facts.ticket, {
        now: clock.now(),
        tokens,
        charge: charge && { budgets: budgets.charged(this.#facts.principal, charge.time), nanoUsd: charge.costNanoUsd },
      });
      return counted instanceof Promise ? counted.catch(onError) : undefined;
    } catch (error) {
      onError(error);
      return undefined;
    }
  }

  #ask({ tokens, costNanoUsd }: Extension): ExtensionAnswer | Promise<ExtensionAnswer> {
    const { counters, clock } = this.#dependencies;
    const budgets = demandsOf(this.#facts.limited, costNanoUsd);
    return counters.extend(this.#facts.ticket, { now: clock.now(), tokens, budgets });
  }

  async #readAndAsk(first: ExtensionAnswer | Promise<ExtensionAnswer>, more: Extension): Promise<ApiError | undefined> {
    let answer = await first;
    while (answer.kind === 'unread') {
      await this.#dependencies.budgets.read(this.#facts.limited, answer.budgets);
      answer = await this.#ask(more);
    }
    return this.#refusal(answer, more);
  }

  #refusal(
    answer: Exclude<ExtensionAnswer, { kind: 'unread' }>,
    { tokens, costNanoUsd }: Extension,
  ): ApiError | undefined {
    const own = this.#reservedNanoUsd;
    if (answer.kind === 'extended') {
      this.#reservedNanoUsd = own + costNanoUsd;
      return undefined;
    }
    const { modality, series, limited } = this.#facts;
    const budgets = answer.budgets.map((level) => ({ ...level, reservedNanoUsd: level.reservedNanoUsd - own }));
    return refusal(
      { ...answer, budgets, requests: [], concurrencyExceeded: [] },
      {
        modality,
        series,
        tokens,
        budgets: limited,
        reserveNanoUsd: own + costNanoUsd,
        part: 'counted',
        now: this.#dependencies.clock.now(),
      },
    );
  }
}

export interface ReservationOptions {
  admitted: Pick<Admitted, 'extend'>;
  /** At the dearest of the models that may answer. */
  priceOf(used: Consumption): number;
  /** What was reserved when the request was admitted. */
  first: Consumption;
}

const INCLUDED: readonly string[] = MEASURE_NAMES.flatMap((name) => MEASURES[name].includes);
/** What is billed last when a budget cannot pay for everything: the prompt. A measure that another includes is cut with it. */
const CUT_FIRST = MEASURE_NAMES.filter((name) => !INCLUDED.includes(name)).toReversed();

const MOST_HALVINGS = 6;

/** What the budgets have set aside for a running request. A class: thousands of streams may be open. */
export class Reservation {
  /** Without the steps of what is open. */
  first: Consumption;
  readonly #options: ReservationOptions;
  #costNanoUsd: number;
  #asking: Promise<ApiError | undefined> | undefined;

  constructor(options: ReservationOptions) {
    this.first = options.first;
    this.#options = options;
    this.#costNanoUsd = options.priceOf(options.first);
  }

  /** Sets aside what all of this costs. False: the budgets do not have it. No promise with counters in memory. */
  cover(used: Consumption): boolean | Promise<boolean> {
    const refusal = this.#cover(used);
    return refusal instanceof Promise ? refusal.then((error) => error === undefined) : refusal === undefined;
  }

  /** More or less than `first` has turned out to be needed. Throws the error for the client if the budgets do not have it. */
  raise(first: Consumption): undefined | Promise<void> {
    const note = (refusal: ApiError | undefined): undefined => {
      if (refusal !== undefined) throw refusal;
      this.first = first;
    };
    const refusal = this.#cover(first);
    return refusal instanceof Promise ? refusal.then(note) : note(refusal);
  }

  /** Sets aside as much of it as the budgets have, but for a small rest. For what was used already, though nothing showed it. */
  async coverPart(used: Consumption): Promise<void> {
    let part = this.#options.priceOf(used) - this.#costNanoUsd;
    for (let halvings = 0; halvings < MOST_HALVINGS; halvings += 1) {
      part = Math.floor(part / 2);
      await this.#extend(part);
    }
  }

  /** The part of it that is set aside. */
  paidPart(used: Consumption): Consumption {
    let paid = used;
    for (const measure of CUT_FIRST) {
      const whole = paid;
      const withAmount = (amount: number): Consumption => {
        const part = { ...whole, [measure]: amount };
        return { ...part, cacheReadTokens: Math.min(part.cacheReadTokens, part.promptTokens) };
      };
      let least = 0;
      let over = whole[measure] + 1;
      while (over - least > 1) {
        const amount = Math.floor((least + over) / 2);
        if (this.#isPaid(withAmount(amount))) least = amount;
        else over = amount;
      }
      paid = withAmount(least);
    }
    return paid;
  }

  #cover(used: Consumption): ApiError | undefined | Promise<ApiError | undefined> {
    if (this.#asking !== undefined) return this.#asking.then(() => this.#cover(used));
    const missing = this.#options.priceOf(used) - this.#costNanoUsd;
    return missing <= 0 ? undefined : this.#extend(missing);
  }

  /** The error for the client if the budgets do not have it. */
  #extend(costNanoUsd: number): ApiError | undefined | Promise<ApiError | undefined> {
    const note = (refusal: ApiError | undefined): ApiError | undefined => {
      this.#asking = undefined;
      if (refusal === undefined) this.#costNanoUsd += costNanoUsd;
      return refusal;
    };
    const answer = this.#options.admitted.extend({ tokens: 0, costNanoUsd });
    if (!(answer instanceof Promise)) return note(answer);
    this.#asking = answer.then(note, (error) => note(toClientError(error)));
    return this.#asking;
  }

  #isPaid(used: Consumption): boolean {
    return this.#options.priceOf(used) <= this.#costNanoUsd;
  }
}

export interface StepsOptions {
  measure: MeasureName;
  size: number;
  /** Nothing beyond it has to be asked for. */
  most: number;
}

/** Measures of which more will be asked for, not counting the template of a prompt. */
const openMeasures = (first: Consumption, most: Consumption): readonly MeasureName[] =>
  MEASURE_NAMES.filter((name) => name !== 'promptTokens' && first[name] < most[name]);

export const isOpen = (first: Consumption, most: Consumption): boolean => openMeasures(first, most).length > 0;

/** A smaller first step is not worth its prompt. */
const SMALLEST_FIRST_PART = 1 / 16;

/** The largest first step that the budgets can pay, or the smallest one. What is not open stays whole. */
export function smallerFirst(
  first: Consumption,
  most: Consumption,
  isAffordable: (first: Consumption) => boolean,
): Consumption {
  const open = openMeasures(first, most);
  let smaller = first;
  for (let part = 1 / 2; part >= SMALLEST_FIRST_PART; part /= 2) {
    smaller = { ...first };
    for (const name of open) smaller[name] = Math.ceil(first[name] * part);
    if (isAffordable(smaller)) break;
  }
  return smaller;
}

/** The same without asking for a larger first step than the one that was granted. */
export function withStepsOf(granted: Consumption, first: Consumption, most: Consumption): Consumption {
  const all = { ...first };
  for (const name of openMeasures(first, most)) all[name] = Math.min(first[name], granted[name]);
  return all;
}

/** Has what a request uses reserved in steps, ahead of it. When a budget has no room for a step, smaller ones are tried. */
export class Steps {
  readonly #reservation: Reservation;
  readonly #options: StepsOptions;
  #granted: number;
  #size: number;
  #asking: Promise<void> | undefined;
  #isUsedUp = false;

  constructor(reservation: Reservation, options: StepsOptions) {
    this.#reservation = reservation;
    this.#options = options;
    this.#size = options.size;
    this.#granted = reservation.first[options.measure];
  }

  /** Whether the request may use so much in all. Asks for the next step early, so that it seldom returns a promise. */
  mayUse(total: number): boolean | Promise<boolean> {
    while (this.#mustAsk(total)) {
      this.#ask(total);
      if (total <= this.#granted) break;
    }
    if (total <= this.#granted || this.#granted >= this.#options.most) return true;
    return this.#asking === undefined ? false : this.#asking.then(() => this.mayUse(total));
  }

  #mustAsk(total: number): boolean {
    const isEnough = this.#granted >= this.#options.most || total <= this.#granted - this.#size / 2;
    return !isEnough && !this.#isUsedUp && this.#asking === undefined;
  }

  #ask(total: number): void {
    const { measure, size, most } = this.#options;
    const isEarly = total <= this.#granted;
    const wanted = Math.min(most, Math.max(this.#granted + Math.ceil(this.#size), total));
    const note = (isCovered: boolean): void => {
      this.#asking = undefined;
      if (isCovered) {
        this.#granted = wanted;
        this.#size = Math.min(size, this.#size * 2);
      } else if (this.#size > 1) this.#size /= 2;
      // Asked early, there may be room before the step is used up: other requests end.
      else this.#isUsedUp = !isEarly;
    };
    const covered = this.#reservation.cover({ ...this.#reservation.first, [measure]: wanted });
    if (covered instanceof Promise) this.#asking = covered.then(note);
    else note(covered);
  }
}
