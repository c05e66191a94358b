/** A token bucket and its size. */
export interface RateBucket {
  id: string;
  perMinute: number;
}

/** An amount to take from every one of these buckets. */
export interface RateDemand {
  amount: number;
  buckets: readonly RateBucket[];
}

export interface ConcurrencyDemand {
  id: string;
  /** Null: running requests are counted but not limited. */
  limit: number | null;
}

/** Money that may be spent until a date. The id names the key or account and the month. */
export interface BudgetDemand {
  id: string;
  limitNanoUsd: number;
  /** Reserved until the real cost is known. */
  reserveNanoUsd: number;
  /** End of the month, in milliseconds since 1970. The counter may be dropped after it. */
  expiresAt: number;
}

export interface AdmissionDemand {
  /** Unique. Names the admission until it is settled. */
  id: string;
  /** The process that runs the request. Each admission extends its lease. */
  owner: string;
  /** Milliseconds since 1970. */
  now: number;
  leaseMs: number;
  requests: RateDemand;
  tokens: RateDemand;
  concurrency: readonly ConcurrencyDemand[];
  budgets: readonly BudgetDemand[];
  /** Budgets that the request may be charged to, limited or not. */
  chargeable: readonly string[];
}

export interface RateLevel {
  remaining: number;
  /** Until the bucket is full again. */
  resetMs: number;
  /** Until the demand could be met; 0 when it was. */
  waitMs: number;
}

export type RateQuery = Pick<AdmissionDemand, 'now' | 'requests' | 'tokens'>;

/** In the order of the demanded buckets. */
export interface RateLevels {
  requests: readonly RateLevel[];
  tokens: readonly RateLevel[];
}

export interface BudgetLevel {
  spentNanoUsd: number;
  /** Reserved for requests that are running. */
  reservedNanoUsd: number;
  exceeded: boolean;
}

/** What `settle` needs to find the admission again. */
export interface AdmissionTicket {
  readonly id: string;
  readonly owner: string;
}

/** A budget whose spending has to be read from the ledger. */
export interface UnreadBudget {
  id: string;
  /** To be passed to `setSpent`. A charge that arrives during the read makes it invalid. */
  fence: number;
}

interface AdmissionLevels extends RateLevels {
  budgets: readonly BudgetLevel[];
}

/** Levels are those after the admission, if there was one. */
export type AdmissionAnswer =
  /** Nothing was taken. Read from the ledger what was spent of these budgets, set it and ask again. */
  | { kind: 'unread'; budgets: readonly UnreadBudget[] }
  | (AdmissionLevels & { kind: 'admitted'; ticket: AdmissionTicket })
  /** True for each exceeded limit of concurrency, in the order of the demand. */
  | (AdmissionLevels & { kind: 'refused'; concurrencyExceeded: readonly boolean[] });

/** What a running request needs beyond what it was admitted with. */
export interface ExtensionDemand {
  now: number;
  /** Taken from the buckets of tokens of the admission. */
  tokens: number;
  /** `reserveNanoUsd` is added to what the admission has reserved. */
  budgets: readonly BudgetDemand[];
}

export type ExtensionAnswer =
  | Extract<AdmissionAnswer, { kind: 'unread' }>
  | { kind: 'extended' }
  /** Nothing was taken: a limit has no room, or the lease of the admission is over. */
  | { kind: 'refused'; tokens: readonly RateLevel[]; budgets: readonly BudgetLevel[] };

export interface Settlement {
  now: number;
  /** Tokens really used; corrects what was taken at admission. */
  tokens: number;
  /** Absent when nothing was billed. Its ledger row must be durable before the call. */
  charge?: { budgets: readonly string[]; nanoUsd: number } | undefined;
}

/**
 * What requests of all processes count against. Every call is atomic and is one round trip, however many limits it touches: a demand
 * takes from all of them or from none.
 *
 * Admissions belong to an owner and last as long as its lease, so the concurrency and reservations of a process that died are given
 * back. Rate limits are not given back: buckets refill by themselves.
 *
 * A budget counter is a copy of what the ledger says. Whenever a charge may or may not be part of the copy, the budget counts as unread and is
 * read from the ledger again: when an admission expires, since its process may have died between the ledger row and `settle`, and
 * when a charge arrives for an admission that expired.
 */
export interface Counters {
  admit(demand: AdmissionDemand): AdmissionAnswer | Promise<AdmissionAnswer>;
  /** Takes more for an admission that is not settled. Settle it only when the answer is here. */
  extend(ticket: AdmissionTicket, more: ExtensionDemand): ExtensionAnswer | Promise<ExtensionAnswer>;
  /** Only the first call for an admission counts. */
  settle(ticket: AdmissionTicket, settlement: Settlement): void | Promise<void>;
  /** Extends the lease of all admissions of the owner. */
  renew(owner: string, lease: { now: number; leaseMs: number }): void | Promise<void>;
  /** The levels as they are; takes nothing. */
  levels(query: RateQuery): RateLevels | Promise<RateLevels>;
  /** False when the fence is no longer valid: ask again and read again. True when the spending is known, by this call or another. */
  setSpent(budget: UnreadBudget & { spentNanoUsd: number }): Promise<boolean>;
  /** Has these budgets read again: the ledger has got rows that may not have been in it when they were read. */
  reread(budgets: readonly string[], now: number): void | Promise<void>;
}
