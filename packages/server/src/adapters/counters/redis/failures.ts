import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { placeOf, type RedisAddress } from './address.ts';

const UNREACHABLE = [
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ECONNRESET',
];

/** Tells the operator why Redis cannot be used. Contains no password. */
export function connectionProblem(error: unknown, address: RedisAddress): Error {
  if (error instanceof StoreUnavailableError) return error;
  const place = placeOf(address);
  const problem = (text: string) => new StoreUnavailableError(text, { cause: error });
  const { code = '', message } = error as NodeJS.ErrnoException;
  if (UNREACHABLE.includes(code)) {
    return problem(
      `Redis at ${place} cannot be reached (${code}). Is it running, and is its address in counters right?`,
    );
  }
  if (/no answer within|timeout/i.test(message)) {
    return problem(
      `Redis at ${place} does not answer. Is its address in counters right, and does a firewall allow it?`,
    );
  }
  if (/^(WRONGPASS|NOAUTH|ERR (invalid password|AUTH|Client sent AUTH))/i.test(message)) {
    return problem(`Redis at ${place} refuses the user or the password in counters.`);
  }
  if (message.startsWith('NOPERM')) {
    return problem(`Redis at ${place} does not permit what Baobab needs: ${message}.`);
  }
  return problem(`Redis at ${place} cannot be used: ${message || code}.`);
}
