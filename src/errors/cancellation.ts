import { ApiError } from './api-error.ts';
import { errors } from './errors.ts';

/** Why a signal fired, as the error its request ends with: a deadline and a shutdown say so themselves, all else is a client that left. */
export function cancellation(signal: AbortSignal): ApiError {
  return signal.reason instanceof ApiError ? signal.reason : errors.clientCancelled();
}
