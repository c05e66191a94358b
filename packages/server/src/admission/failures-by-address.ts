import { isIPv6 } from 'node:net';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';

const MAX_NETWORKS = 10_000;

/** One client usually has a whole /64 of IPv6 addresses. */
export function networkOf(address: string): string {
  if (!isIPv6(address) || address.includes('.')) return address;
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  const rest = tail === undefined || tail === '' ? [] : tail.split(':');
  const filled =
    tail === undefined ? groups : [...groups, ...Array(8 - groups.length - rest.length).fill('0'), ...rest];
  return filled.slice(0, 4).join(':');
}

/** What is known of the clients that failed last. Memory is bounded: the network that failed longest ago is forgotten. */
class Failures<T> {
  readonly #networks = new Map<string, T>();

  of(address: string): T | undefined {
    return this.#networks.get(networkOf(address));
  }

  set(address: string, value: T): void {
    const network = networkOf(address);
    this.#networks.delete(network);
    const [oldest] = this.#networks.size >= MAX_NETWORKS ? this.#networks.keys() : [];
    if (oldest !== undefined) this.#networks.delete(oldest);
    this.#networks.set(network, value);
  }
}

/** Failures without delay; afterwards each adds to the delay. */
const FREE_FAILURES = 20;
const DELAY_STEP_MS = 100;
const MAX_DELAY_MS = 5_000;
/** One failure is forgotten each second. */
const FORGET_MS = 1_000;
const MAX_LEVEL = FREE_FAILURES + MAX_DELAY_MS / DELAY_STEP_MS;
/** Refused requests that may wait at a time. Those above are answered at once, so that they use no memory. */
const MAX_WAITING = 512;

export interface KeyBackoff {
  /** Counts a request without a valid key and calls back when its answer may be sent. Returns whether it waits. */
  refuse(address: string, answer: () => void): boolean;
}

/** Delays the answers to clients that send many bad keys. Requests with a good key never wait, from whatever address they come. */
export function createKeyBackoff(clock: Clock): KeyBackoff {
  const failures = new Failures<{ level: number; at: number }>();
  let waiting = 0;

  function countFailure(address: string): number {
    const at = clock.now();
    const before = failures.of(address);
    const left = before === undefined ? 0 : Math.max(0, before.level - (at - before.at) / FORGET_MS);
    const level = Math.min(MAX_LEVEL, left + 1);
    failures.set(address, { level, at });
    return level;
  }

  return {
    refuse(address, answer) {
      const delayMs = Math.floor(countFailure(address) - FREE_FAILURES) * DELAY_STEP_MS;
      if (delayMs <= 0 || waiting >= MAX_WAITING) {
        answer();
        return false;
      }
      waiting += 1;
      setTimeout(() => {
        waiting -= 1;
        answer();
      }, delayMs);
      return true;
    },
  };
}

const MAX_SIGN_INS = 10;
const SIGN_IN_WINDOW_MS = 60_000;

export interface SignInLimit {
  /** Throws 429 when too many sign-ins from the address have failed within a minute. */
  check(address: string): void;
  countFailure(address: string): void;
}

/** Successful sign-ins do not count: many people may share an address. */
export function createSignInLimit(clock: Clock): SignInLimit {
  const failures = new Failures<{ count: number; since: number }>();

  function recent(address: string): { count: number; since: number } | undefined {
    const found = failures.of(address);
    return found !== undefined && clock.now() - found.since < SIGN_IN_WINDOW_MS ? found : undefined;
  }

  return {
    check(address) {
      const found = recent(address);
      if (found === undefined || found.count < MAX_SIGN_INS) return;
      throw errors.tooManySignIns((found.since + SIGN_IN_WINDOW_MS - clock.now()) / 1000);
    },
    countFailure(address) {
      const { count, since } = recent(address) ?? { count: 0, since: clock.now() };
      failures.set(address, { count: count + 1, since });
    },
  };
}
