import type { Clock } from '@baobab/core/ports/clock.ts';

/** How long slots stay reserved for an account that used them. */
const WINDOW_MS = 1_000;

interface Account {
  running: number;
  /** Most requests at a time in this window and in the one before. */
  peak: number;
  peakBefore: number;
}

/**
 * Keeps one account from taking every slot of a model. An account above its equal share leaves free what the others used within the
 * last second or two. Otherwise their next requests would wait until one of its own ends, which may take long.
 */
export interface FairShares {
  /** `capacity`: how many requests may run at once, of all accounts together. */
  mayStart(accountId: string, capacity: number): boolean;
  started(accountId: string): void;
  ended(accountId: string): void;
}

export function createFairShares(clock: Clock): FairShares {
  const accounts = new Map<string, Account>();
  let total = 0;
  let windowEndsAt = clock.now() + WINDOW_MS;

  /** Starts a new window when the last one is over, and forgets accounts that used nothing in both. */
  function advance(): void {
    const now = clock.now();
    if (now < windowEndsAt) return;
    const isLongAgo = now >= windowEndsAt + WINDOW_MS;
    windowEndsAt = now + WINDOW_MS;
    for (const [accountId, account] of accounts) {
      account.peakBefore = isLongAgo ? 0 : account.peak;
      account.peak = account.running;
      if (account.peak === 0 && account.peakBefore === 0) accounts.delete(accountId);
    }
  }

  return {
    mayStart(accountId, capacity) {
      advance();
      const own = accounts.get(accountId);
      const active = accounts.size + (own === undefined ? 1 : 0);
      const share = Math.max(1, Math.floor(capacity / active));
      if ((own?.running ?? 0) < share) return true;
      let reserved = 0;
      for (const other of accounts.values()) {
        if (other === own) continue;
        reserved += Math.max(0, Math.min(share, Math.max(other.peak, other.peakBefore)) - other.running);
      }
      return capacity - total > reserved;
    },
    started(accountId) {
      const account = accounts.get(accountId) ?? { running: 0, peak: 0, peakBefore: 0 };
      account.running += 1;
      account.peak = Math.max(account.peak, account.running);
      accounts.set(accountId, account);
      total += 1;
    },
    ended(accountId) {
      const account = accounts.get(accountId);
      if (account === undefined) return;
      account.running -= 1;
      total -= 1;
    },
  };
}
