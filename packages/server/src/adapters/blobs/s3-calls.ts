import { isAbsent, toBlobError } from './s3-failures.ts';

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
