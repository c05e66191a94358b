import { asWeightsError, isDiskFailure, WeightsError } from '../weights-error.ts';

const EXPLANATIONS: Record<string, string> = {
  ENOTFOUND: 'the host name could not be resolved',
  EAI_AGAIN: 'the host name could not be resolved',
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was cut',
  EHOSTUNREACH: 'there is no route to the host',
  ENETUNREACH: 'there is no network',
  UND_ERR_CONNECT_TIMEOUT: 'connecting took too long',
  UND_ERR_SOCKET: 'the connection was cut',
};

/** The hub library hides the code of a failed look-up behind its own errors, so each cause is looked at. */
const OFFLINE_CODES = new Set(['ENOTFOUND', 'EAI_AGAIN', 'ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH']);

const TIMEOUT_NAMES = new Set(['AbortError', 'TimeoutError']);

function* causes(error: unknown): Generator<unknown> {
  for (let current = error, depth = 0; current !== undefined && depth < 5; depth += 1) {
    yield current;
    current = current instanceof Error ? current.cause : undefined;
  }
}

function statusOf(error: unknown): number | null {
  for (const cause of causes(error)) {
    if (typeof cause !== 'object' || cause === null) continue;
    if ('statusCode' in cause && typeof cause.statusCode === 'number') return cause.statusCode;
  }
  return null;
}

/** Why a transfer failed, in words. */
export function networkReason(error: unknown): string {
  let fallback = 'the transfer failed';
  for (const cause of causes(error)) {
    if (!(cause instanceof Error)) continue;
    const known = 'code' in cause && typeof cause.code === 'string' ? EXPLANATIONS[cause.code] : undefined;
    if (known !== undefined) return known;
    if (TIMEOUT_NAMES.has(cause.name)) return 'it did not answer in time';
    fallback = cause.message;
  }
  return fallback;
}

const isOffline = (error: unknown): boolean =>
  [...causes(error)].some(
    (cause) =>
      cause instanceof Error && 'code' in cause && typeof cause.code === 'string' && OFFLINE_CODES.has(cause.code),
  );

/** Turns what a fetching library throws into one readable line. `what` completes "cannot fetch … from …". */
export function networkFailure(what: string, from: string, error: unknown): WeightsError {
  if (error instanceof WeightsError || isDiskFailure(error)) return asWeightsError(error);
  const status = statusOf(error);
  if (status === null) {
    const failure = isOffline(error) ? 'offline' : 'unreachable';
    return new WeightsError(failure, `Cannot fetch ${what} from ${from}: ${networkReason(error)}`, error);
  }
  if (status === 401 || status === 403) {
    return new WeightsError(
      'refused',
      `Access to ${what} was refused by ${from} (status ${status}): it needs a login or a token`,
      error,
    );
  }
  if (status === 404) return new WeightsError('refused', `There is no ${what} at ${from}`, error);
  return new WeightsError('unreachable', `Cannot fetch ${what} from ${from}: it answered with status ${status}`, error);
}
