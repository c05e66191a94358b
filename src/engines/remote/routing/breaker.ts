/** High enough that one odd request, tried at several addresses, shuts none of them. */
const FAILURES_TO_OPEN = 5;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

export interface Breaker {
  /** Closed, or half-open with nobody trying yet. */
  allows(): boolean;
  /** A request goes out; when half-open it is the one that tries. */
  begin(): void;
  succeeded(): void;
  failed(): void;
  /** Ended without telling anything about the upstream: the caller gave up. */
  undecided(): void;
}

/** Stops asking an address that keeps failing; after a pause that doubles, one request at a time may try again. */
export function createBreaker(clock: { now(): number }): Breaker {
  let failures = 0;
  let pauseMs = 0;
  let closedAgainAt = 0;
  let trying = false;
  const open = () => failures >= FAILURES_TO_OPEN;
  return {
    allows: () => !open() || (!trying && clock.now() >= closedAgainAt),
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
      // Requests that were under way together fail together: they are one reason to wait, not many.
      if (clock.now() < closedAgainAt) return;
      pauseMs = pauseMs === 0 ? FIRST_PAUSE_MS : Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      closedAgainAt = clock.now() + pauseMs;
    },
    undecided() {
      trying = false;
    },
  };
}
