import { ApiError } from './api-error.ts';
import { errors } from './errors.ts';

/** The database or the blob store cannot be opened or used. The message is for the operator; clients get that of `toClientError`. */
export class StoreUnavailableError extends Error {
  override readonly name: string = 'StoreUnavailableError';
}

/** Nothing answers, or not for the moment. Waiting may mend it. */
export class StoreAwayError extends StoreUnavailableError {
  override readonly name = 'StoreAwayError';
}

/** There is no space left to store it. What needs none still works. */
export class StorageFullError extends StoreUnavailableError {
  override readonly name = 'StorageFullError';
}

/** What a client may know of an error. Whatever is neither of the table nor an outage is a bug. */
export function toClientError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return error instanceof StoreUnavailableError ? errors.storageUnavailable(error) : errors.internal(error);
}
