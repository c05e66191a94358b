import type { ApiError } from '../errors/api-error.ts';
import { UpstreamsAwayError } from '../errors/errors.ts';
import { StoreUnavailableError } from '../errors/store-unavailable.ts';

/*
 * What is tried again after a failure, where, how often and after which pause. Two tables, because a call is tried again while its client
 * waits, and a batch line or a background response at any time. The loops are where the calls are made; this file decides for all of them.
 */

/**
 * How a call to an upstream fails.
 * - `rejected`: the upstream works and refuses this request; another one would refuse it too.
 * - `too-many`: more inputs or bytes than this upstream takes in one call (413).
 * - `unparsed`: the upstream cannot parse what its model wrote.
 * - `unfit`: the upstream works, but was not started for such requests; another one may be.
 * - `no-route`: the upstream works, but has no route for tokens; another one may have it.
 * - `busy`: it works, but is full (429).
 * - `reset`: the connection broke before any answer, as a kept-alive one may at any time.
 * - `broken`, `timeout`: it does not work now.
 * - `cancelled`: the caller gave up.
 */
export type UpstreamFailureKind =
  | 'rejected'
  | 'too-many'
  | 'unparsed'
  | 'unfit'
  | 'no-route'
  | 'busy'
  | 'reset'
  | 'broken'
  | 'timeout'
  | 'cancelled';

/** Those that are not the request's own fault. */
export const COUNTED_AS_FAILED: readonly UpstreamFailureKind[] = ['unfit', 'busy', 'reset', 'broken', 'timeout'];
/** After these the upstream may be out of order; after the others it works. */
export const MAY_BE_OUT_OF_ORDER: readonly UpstreamFailureKind[] = ['reset', 'broken', 'timeout'];

/**
 * How a call to an engine process fails, beyond the errors that the engine itself reports.
 * - `crash`: the process ended. It takes down all of its calls, and most of them did not cause it.
 * - `hang`: the process stopped answering, perhaps because of this call. Another process could hang on it too.
 */
export type ProcessFailureKind = 'crash' | 'hang';

interface CallRule {
  /** `same-once`: the first time, the same upstream may be chosen again. */
  again: 'never' | 'elsewhere' | 'same-once';
  /** In all, with the first one. */
  attempts: number;
}

const NEVER: CallRule = { again: 'never', attempts: 1 };
const ELSEWHERE: CallRule = { again: 'elsewhere', attempts: 3 };

/** Calls are repeated at once. Those to upstreams need the retry budget of the model as well. */
const CALL_RULES: Readonly<Record<UpstreamFailureKind | ProcessFailureKind, CallRule>> = {
  rejected: NEVER,
  'too-many': NEVER,
  unparsed: NEVER,
  cancelled: NEVER,
  unfit: ELSEWHERE,
  'no-route': ELSEWHERE,
  busy: ELSEWHERE,
  broken: ELSEWHERE,
  timeout: ELSEWHERE,
  // The other side may have closed a kept-alive connection just then.
  reset: { again: 'same-once', attempts: 3 },
  crash: { again: 'elsewhere', attempts: 2 },
  hang: NEVER,
};

/** `attempts`: how many there were, with the one that failed. A call whose answer has begun is never repeated. */
export const mayRepeatCall = (failure: UpstreamFailureKind | ProcessFailureKind, attempts: number): boolean =>
  attempts < CALL_RULES[failure].attempts;

/** `earlier`: how often the call has failed in the same way before. */
export const mayRepeatAtSame = (failure: UpstreamFailureKind, earlier: number): boolean =>
  CALL_RULES[failure].again === 'same-once' && earlier === 0;

/** Whether another model may answer instead of one that failed before its answer began. */
export const mayAskNextModel = ({ status }: ApiError): boolean => status >= 500;

/** Retries that each request to an upstream allows for. */
const BUDGET_SHARE = 0.2;
/** Retries that are always possible after a quiet time. */
const BUDGET_BURST = 20;

/**
 * Bounds the retries of a model to a share of its requests. When all its upstreams fail, retries of every request would multiply the
 * load just when they can bear it least.
 */
export class RetryBudget {
  #left = BUDGET_BURST;

  /** A new request arrives. */
  add(): void {
    this.#left = Math.min(BUDGET_BURST, this.#left + BUDGET_SHARE);
  }

  /** Takes one retry out of the budget. False: none is left. */
  take(): boolean {
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}

/** Before the next attempt while the store or all upstreams of a model are away. */
export const OUTAGE_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;
/** Before the second and the third attempt. */
const SERVER_ERROR_WAITS_MS = [1_000, 5_000];

/** A batch line or a background response is given up after this many crashes or server errors. */
export const MOST_COUNTED_ATTEMPTS = SERVER_ERROR_WAITS_MS.length + 1;

interface WorkRule {
  matches(failure: ApiError): boolean;
  /** Undefined: the failure is the result. `counted`: how many attempts counted before this one. */
  waitMs(failure: ApiError, counted: number): number | undefined;
  /** One of the few attempts that there are. What does not count is repeated for as long as it takes. */
  counts: boolean;
  /** Only for batch lines: what has no deadline would wait forever, and be claimed and given back all the time. */
  needsDeadline?: boolean;
}

/** The first rule that matches holds. Without one, the failure is the result. */
const WORK_RULES: readonly WorkRule[] = [
  {
    // A limit or a full queue.
    matches: ({ type }) => type === 'rate_limit_error',
    waitMs: ({ retryAfterSeconds = 1, shouldRetry }) =>
      shouldRetry ? Math.min(LONGEST_WAIT_MS, retryAfterSeconds * 1_000) : LONGEST_WAIT_MS,
    counts: false,
  },
  {
    // Until the account is resumed.
    matches: ({ code }) => code === 'account_suspended',
    waitMs: () => 2_000,
    counts: false,
    needsDeadline: true,
  },
  {
    matches: ({ cause }) => cause instanceof StoreUnavailableError,
    waitMs: () => OUTAGE_WAIT_MS,
    counts: false,
  },
  {
    matches: ({ cause }) => cause instanceof UpstreamsAwayError,
    waitMs: () => OUTAGE_WAIT_MS,
    counts: false,
    needsDeadline: true,
  },
  {
    matches: ({ status }) => status >= 500,
    waitMs: (_failure, counted) => SERVER_ERROR_WAITS_MS[counted],
    counts: true,
  },
];

export interface FailedWork {
  failure: ApiError;
  /** How many earlier attempts counted. */
  counted: number;
  hasDeadline: boolean;
}

/** When a batch line or a background response is tried again. Undefined: the failure is its result. */
export function repeatWork({
  failure,
  counted,
  hasDeadline,
}: FailedWork): { waitMs: number; counts: boolean } | undefined {
  const rule = WORK_RULES.find((each) => each.matches(failure) && (hasDeadline || !each.needsDeadline));
  const waitMs = rule?.waitMs(failure, counted);
  return rule && waitMs !== undefined ? { waitMs, counts: rule.counts } : undefined;
}

/** How one call to one upstream ended. */
export interface UpstreamAttempt {
  /** Host and port. */
  upstream: string;
  region: string;
  /** `ok`, or the kind of failure. */
  outcome: string;
  durationMs: number;
  /** What the upstream said, for operators. */
  detail: string | null;
}
