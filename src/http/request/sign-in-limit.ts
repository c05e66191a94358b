import { errors } from '../../errors/errors.ts';
import type { Clock } from '../../ports/clock.ts';
import { networkOf } from './key-backoff.ts';

const MAX_FAILURES = 10;
const WINDOW_MS = 60_000;
const MAX_ADDRESSES = 10_000;

export interface SignInLimit {
  /** Throws 429 when too many sign-ins from the address have failed within a minute. */
  check(address: string): void;
  countFailure(address: string): void;
}

/** Successful sign-ins do not count: many people may share an address. Memory is bounded. */
export function createSignInLimit(clock: Clock): SignInLimit {
  const failures = new Map<string, { count: number; since: number }>();

  function recent(network: string): { count: number; since: number } | undefined {
    const found = failures.get(network);
    return found !== undefined && clock.now() - found.since < WINDOW_MS ? found : undefined;
  }

  return {
    check(address) {
      const found = recent(networkOf(address));
      if (found === undefined || found.count < MAX_FAILURES) return;
      throw errors.tooManySignIns((found.since + WINDOW_MS - clock.now()) / 1000);
    },
    countFailure(address) {
      const network = networkOf(address);
      const { count, since } = recent(network) ?? { count: 0, since: clock.now() };
      failures.delete(network);
      if (failures.size >= MAX_ADDRESSES) failures.delete(failures.keys().next().value as string);
      failures.set(network, { count: count + 1, since });
    },
  };
}
