/** A token bucket to take from, with its size. */
export interface RateDemand {
  bucket: string;
  perMinute: number;
  amount: number;
}

/** Money that may be spent until a date. `id` names whose and which month. */
export interface BudgetDemand {
  id: string;
  limitNanoUsd: number;
  /** Held back until the real cost is known. */
  reserveNanoUsd: number;
}

export interface AdmissionDemand {
  /** Milliseconds since 1970. */
  now: number;
  requests: RateDemand;
  tokens: RateDemand;
  concurrency: { id: string; limit: number | null };
  budgets: readonly BudgetDemand[];
}

export interface RateLevel {
  remaining: number;
  /** Until the bucket is full again. */
  resetMs: number;
  /** Until the demand could be met; 0 when it was. */
  waitMs: number;
}

export type RateQuery = Pick<AdmissionDemand, 'now' | 'requests' | 'tokens'>;

export interface RateLevels {
  requests: RateLevel;
  tokens: RateLevel;
}

export interface BudgetLevel {
  spentNanoUsd: number;
  /** Of requests that are running. */
  reservedNanoUsd: number;
  exceeded: boolean;
}

/** Levels are those after the admission, if there was one. */
export type AdmissionAnswer =
  /** These budgets were never opened here: open them with what was spent so far, and ask again. */
  | { kind: 'unopened'; budgets: readonly string[] }
  | (RateLevels & {
      kind: 'admitted' | 'refused';
      concurrencyExceeded: boolean;
      budgets: readonly BudgetLevel[];
    });

export interface Settlement {
  now: number;
  /** What was taken at admission, and what was really used. */
  tokens: RateDemand & { used: number };
  concurrency: { id: string };
  /** Reservations to give back. */
  reserved: readonly { id: string; nanoUsd: number }[];
  /** Budgets that pay; those that are not open are left alone. */
  spent: readonly { id: string; nanoUsd: number }[];
}

/**
 * What many requests count against at once. Every call is atomic and is one round trip, however many limits it touches: a demand
 * takes from all of them or from none.
 */
export interface Counters {
  admit(demand: AdmissionDemand): AdmissionAnswer | Promise<AdmissionAnswer>;
  settle(settlement: Settlement): void | Promise<void>;
  /** The levels as they are; takes nothing. */
  levels(demand: RateQuery): RateLevels | Promise<RateLevels>;
  /** Opening what is open already changes nothing. */
  openBudget(budget: { id: string; spentNanoUsd: number; expiresAt: number }): Promise<void>;
}
