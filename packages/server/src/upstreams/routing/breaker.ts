import type { Clock } from '@baobab/core/ports/clock.ts';

const FAILURES_TO_OPEN = 5;
/** One account alone cannot open the breaker for all: its requests may be the reason why they fail. */
const FAILURES_OF_ONE_ACCOUNT = FAILURES_TO_OPEN - 1;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;
/** The account that failed first is forgotten first. */
const MAX_ACCOUNTS = 1_000;

export type BreakerState = 'closed' | 'open' | 'half-open';

/**
 * Stops requests to an upstream that keeps failing. After a pause that doubles each time, one request at a time may try again.
 * Failures that a request may have caused itself pause the requests of its account; they pause all accounts only if several
 * accounts have them.
 */
export interface Breaker {
  /** For requests of all accounts. */
  state(): BreakerState;
  /** Whether a request may be sent: of this account, or of accounts in general. */
  allows(accountId?: string): boolean;
  /** A request starts. When half-open, it is the trial request. */
  begin(accountId: string): void;
  /** A request or a health check has succeeded. */
  succeeded(accountId?: string): void;
  failed(accountId: string, isUpstreamFault: boolean): void;
  /** The request says nothing about the upstream, for example because the caller gave up. */
  undecided(accountId: string): void;
  /** How many accounts are paused because of failures that only they have. */
  pausedAccounts(): number;
}

export function createBreaker(clock: Clock): Breaker {
  const shared = createSwitch(clock);
  const accounts = new Map<string, { own: Switch; counted: number }>();

  const accountOf = (accountId: string) => {
    const known = accounts.get(accountId);
    if (known !== undefined) return known;
    if (accounts.size >= MAX_ACCOUNTS) for (const oldest of accounts.keys().take(1)) accounts.delete(oldest);
    const account = { own: createSwitch(clock), counted: 0 };
    accounts.set(accountId, account);
    return account;
  };

  return {
    state: shared.state,
    allows: (accountId) =>
      shared.allows() && (accountId === undefined || (accounts.get(accountId)?.own.allows() ?? true)),
    begin(accountId) {
      shared.begin();
      accounts.get(accountId)?.own.begin();
    },
    succeeded(accountId) {
      const hasRecovered = shared.state() !== 'closed' || accountId === undefined;
      shared.succeeded();
      if (hasRecovered) accounts.clear();
      else accounts.delete(accountId);
      for (const account of accounts.values()) account.counted = 0;
    },
    failed(accountId, isUpstreamFault) {
      if (isUpstreamFault) {
        shared.failed();
        accounts.get(accountId)?.own.undecided();
        return;
      }
      const account = accountOf(accountId);
      account.own.failed();
      if (account.counted < FAILURES_OF_ONE_ACCOUNT || shared.state() !== 'closed') {
        account.counted += 1;
        shared.failed();
      }
    },
    undecided(accountId) {
      shared.undecided();
      accounts.get(accountId)?.own.undecided();
    },
    pausedAccounts: () => [...accounts.values()].filter(({ own }) => own.state() !== 'closed').length,
  };
}

type Switch = ReturnType<typeof createSwitch>;

/** Opens after several failures in a row. */
function createSwitch(clock: Clock) {
  let failures = 0;
  let pauseMs = 0;
  let retryAt = 0;
  let trying = false;
  const open = () => failures >= FAILURES_TO_OPEN;
  return {
    state: (): BreakerState => (!open() ? 'closed' : trying || clock.now() >= retryAt ? 'half-open' : 'open'),
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
