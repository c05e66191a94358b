import { S3ServiceException } from '@aws-sdk/client-s3';
import { StorageFullError, StoreAwayError, StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';

const FULL = new Set(['QuotaExceeded', 'XMinioStorageFull', 'InsufficientStorage', 'StorageFull']);
/** Answers that only time can change. The SDK has repeated those that are worth it. */
const isPassing = (status: number): boolean => status >= 500 || status === 408 || status === 429;
/** Answers that only an operator can change. */
const REFUSALS = [301, 401, 403, 404];

/** The credentials may have been replaced. */
export const isRefusal = (error: unknown): boolean =>
  error instanceof S3ServiceException && [401, 403].includes(error.$metadata.httpStatusCode ?? 0);

export const isAbsent = (error: unknown): boolean =>
  error instanceof S3ServiceException && error.$metadata.httpStatusCode === 404 && error.name !== 'NoSuchBucket';

/** The error of the ports for an error of a call to S3. What is not from S3 or the network is a bug and stays as it is. */
export function toBlobError(error: unknown): unknown {
  const { name, code } = error as NodeJS.ErrnoException;
  const text = `S3 does not answer: ${systemReason(error)}.`;
  const away = () => new StoreAwayError(text, { cause: error });
  if (error instanceof S3ServiceException) {
    if (FULL.has(name)) return new StorageFullError('The bucket is full.', { cause: error });
    const status = error.$metadata.httpStatusCode ?? 500;
    if (isPassing(status)) return away();
    return REFUSALS.includes(status) ? new StoreUnavailableError(text, { cause: error }) : error;
  }
  const isNetwork = typeof code === 'string' && !code.startsWith('ERR_INVALID');
  if (isNetwork || name === 'TimeoutError') return away();
  return name === 'CredentialsProviderError' ? new StoreUnavailableError(text, { cause: error }) : error;
}

/** Rejects with the errors of the ports. */
export const send = <T>(call: Promise<T>): Promise<T> =>
  call.catch((error: unknown) => {
    throw toBlobError(error);
  });

/** Undefined when S3 has no such object. */
export const unlessAbsent = <T>(call: Promise<T>): Promise<T | undefined> =>
  call.catch((error: unknown) => {
    if (isAbsent(error)) return undefined;
    throw toBlobError(error);
  });

export interface Bucket {
  bucket: string;
  endpoint?: string | undefined;
  region: string;
}

/** Tells the operator why the bucket cannot be used. Contains no credentials. */
export function bucketProblem(error: unknown, { bucket, endpoint = 'AWS', region }: Bucket): Error {
  const problem = (text: string) => new StoreUnavailableError(text, { cause: error });
  const { name } = error as Error;
  const status = error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined;
  if (name === 'CredentialsProviderError') {
    return problem(
      'There are no credentials for S3. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role.',
    );
  }
  if (status === 404) return problem(`S3 (${endpoint}) has no bucket '${bucket}'. Create it, or correct blobs.`);
  if (status === 403 || status === 401) {
    return problem(
      `S3 (${endpoint}) refuses the bucket '${bucket}'. Check the credentials and the rights of their user.`,
    );
  }
  if (status === 301) return problem(`The bucket '${bucket}' is in another region than ${region}. Set AWS_REGION.`);
  const Kind = toBlobError(error) instanceof StoreAwayError ? StoreAwayError : StoreUnavailableError;
  return new Kind(`S3 (${endpoint}) cannot be used: ${systemReason(error)}. Are blobs and blobs_endpoint right?`, {
    cause: error,
  });
}
