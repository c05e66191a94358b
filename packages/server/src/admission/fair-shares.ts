import type { CallContext } from '@baobab/core/engine/engine.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';

/** How long slots stay reserved for an account that used them. */
const WINDOW_MS = 1_000;

interface Account {
  weight: number;
  running: number;
  /** Most requests at a time in this window and in the one before. */
  peak: number;
  peakBefore: number;
}

/**
 * Keeps one account from taking every slot of a model. An account above the share that its weight gives it leaves free what the others
 * used within the last second or two. Otherwise their next requests would wait until one of its own ends, which may take long: the fair
 * queue decides who is next, but cannot take a slot back.
 */
export interface FairShares {
  /** `capacity`: how many requests may run at once, of all accounts together. */
  mayStart(account: SharingAccount, capacity: number): boolean;
  started(account: SharingAccount): void;
  ended(accountId: string): void;
}

export type SharingAccount = Pick<CallContext, 'accountId' | 'weight'>;

export function createFairShares(clock: Clock): FairShares {
  const accounts = new Map<string, Account>();
  let total = 0;
  /** Of all accounts. */
  let weights = 0;
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
      if (account.peak > 0 || account.peakBefore > 0) continue;
      accounts.delete(accountId);
      weights -= account.weight;
    }
  }

  return {
    mayStart({ accountId, weight = 1 }, capacity) {
      advance();
      const own = accounts.get(accountId);
      const active = weights + weight - (own?.weight ?? 0);
      const shareOf = (of: number) => Math.max(1, Math.floor((capacity * of) / active));
      if ((own?.running ?? 0) < shareOf(weight)) return true;
      let free = capacity - total;
      for (const other of accounts.values()) {
        if (free <= 0) return false;
        if (other === own) continue;
        const { peak, peakBefore, running } = other;
        free -= Math.max(0, Math.min(shareOf(other.weight), Math.max(peak, peakBefore)) - running);
      }
      return free > 0;
    },
    started({ accountId, weight = 1 }) {
      const account = accounts.get(accountId) ?? { weight: 0, running: 0, peak: 0, peakBefore: 0 };
      weights += weight - account.weight;
      account.weight = weight;
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
