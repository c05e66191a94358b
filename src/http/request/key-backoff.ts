import { isIPv6 } from 'node:net';
import type { Clock } from '../../ports/clock.ts';

/** Failures without delay; afterwards each adds to the delay. */
const FREE_FAILURES = 20;
const DELAY_STEP_MS = 100;
const MAX_DELAY_MS = 5_000;
/** One failure is forgotten each second. */
const FORGET_MS = 1_000;
const MAX_LEVEL = FREE_FAILURES + MAX_DELAY_MS / DELAY_STEP_MS;
const MAX_ADDRESSES = 10_000;
/** Refused requests that may wait at a time. Those above are answered at once, so that they use no memory. */
const MAX_WAITING = 512;

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

export interface KeyBackoff {
  /** Counts a request without a valid key and calls back when its answer may be sent. Returns whether it waits. */
  refuse(address: string, answer: () => void): boolean;
}

/**
 * Delays the answers to clients that send many bad keys. Requests with a good key never wait, from whatever address they come. Memory is
 * bounded: of more than 10 000 addresses, the one that failed longest ago is forgotten.
 */
export function createKeyBackoff(clock: Clock): KeyBackoff {
  const levels = new Map<string, { level: number; at: number }>();
  let waiting = 0;

  function countFailure(address: string): number {
    const network = networkOf(address);
    const now = clock.now();
    const before = levels.get(network);
    const forgotten = before === undefined ? 0 : (now - before.at) / FORGET_MS;
    const level = Math.min(MAX_LEVEL, Math.max(0, (before?.level ?? 0) - forgotten) + 1);
    levels.delete(network);
    if (levels.size >= MAX_ADDRESSES) levels.delete(levels.keys().next().value as string);
    levels.set(network, { level, at: now });
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
