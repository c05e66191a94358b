import type { Clock } from '../../../ports/clock.ts';

/** High enough that one odd request, tried at several upstreams, disables none of them. */
const FAILURES_TO_OPEN = 5;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

export type BreakerState = 'closed' | 'open' | 'half-open';

export interface Breaker {
  state(): BreakerState;
  /** Closed, or half-open without a trial request. */
  allows(): boolean;
  /** A request starts. When half-open, it is the trial request. */
  begin(): void;
  succeeded(): void;
  failed(): void;
  /** The caller gave up: this says nothing about the upstream. */
  undecided(): void;
}

/** Stops requests to an upstream that keeps failing. After a pause that doubles each time, one request at a time may try again. */
export function createBreaker(clock: Clock): Breaker {
  let failures = 0;
  let pauseMs = 0;
  let retryAt = 0;
  let trying = false;
  const open = () => failures >= FAILURES_TO_OPEN;
  return {
    state: () => (!open() ? 'closed' : trying || clock.now() >= retryAt ? 'half-open' : 'open'),
    allows: () => !open() || (!trying && clock.now() >= retryAt),
    begin() {
      if (open()) trying = true;
    },
    succeeded() {
      failures = 0;
      pauseMs = 0;
      trying = false;
    },
    failed() {
      failures += 1;
      trying = false;
      if (!open()) return;
      // Requests that ran at the same time fail together: they lengthen the pause once.
      if (clock.now() < retryAt) return;
      pauseMs = pauseMs === 0 ? FIRST_PAUSE_MS : Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      retryAt = clock.now() + pauseMs;
    },
    undecided() {
      trying = false;
    },
  };
}
