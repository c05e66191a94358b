import { ApiError } from './api-error.ts';
import { errors } from './errors.ts';

/** The error for a request whose signal was aborted. Deadlines and shutdowns give their own reason; otherwise the client left. */
export function cancellation(signal: AbortSignal): ApiError {
  return signal.reason instanceof ApiError ? signal.reason : errors.clientCancelled();
}
