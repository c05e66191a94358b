import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import { asWeightsError, isDiskFailure, WeightsError } from '../weights-error.ts';

/** The hub library hides the code of a failed look-up behind its own errors, so each cause is looked at. */
const OFFLINE_CODES = new Set(['ENOTFOUND', 'EAI_AGAIN', 'ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH']);

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
    return new WeightsError(failure, `Cannot fetch ${what} from ${from}: ${systemReason(error)}`, error);
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
