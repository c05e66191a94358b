import { S3ServiceException } from '@aws-sdk/client-s3';
import { StorageFullError, StoreAwayError, StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { expect, it } from 'vitest';
import { isAbsent, toBlobError } from './s3-failures.ts';

const answered = (name: string, httpStatusCode: number) =>
  new S3ServiceException({ name, $fault: 'server', message: 'no', $metadata: { httpStatusCode } });

it.each([
  ['InternalError', 500],
  ['SlowDown', 503],
  ['TooManyRequests', 429],
])('calls the store away after %s', (name, status) => {
  expect(toBlobError(answered(name, status))).toBeInstanceOf(StoreAwayError);
});

it.each([
  ['AccessDenied', 403],
  ['NoSuchBucket', 404],
])('calls the store unavailable, not away, after %s', (name, status) => {
  expect(toBlobError(answered(name, status))).toEqual(expect.any(StoreUnavailableError));
  expect(toBlobError(answered(name, status))).not.toBeInstanceOf(StoreAwayError);
});

it.each([
  ['ECONNREFUSED', 'the connection was refused'],
  ['ECONNRESET', 'the connection was cut'],
  ['ENOTFOUND', 'the host name could not be resolved'],
  ['EPIPE', 'the connection was cut'],
  ['CERT_HAS_EXPIRED', 'its certificate has expired'],
])('calls the store away when the connection fails with %s', (code, reason) => {
  expect(toBlobError(Object.assign(new Error('raw'), { code }))).toEqual(
    new StoreAwayError(`S3 does not answer: ${reason}.`),
  );
});

it('calls the store away after a timeout', () => {
  expect(toBlobError(Object.assign(new Error('late'), { name: 'TimeoutError' }))).toBeInstanceOf(StoreAwayError);
});

it('tells a full bucket from one that is away', () => {
  expect(toBlobError(answered('QuotaExceeded', 403))).toBeInstanceOf(StorageFullError);
});

it('leaves errors of our own code as they are', () => {
  const wrong = answered('InvalidArgument', 400);
  const bug = new TypeError('not a function');
  expect([toBlobError(wrong), toBlobError(bug)]).toEqual([wrong, bug]);
});

it('tells a missing object from a missing bucket', () => {
  expect([isAbsent(answered('NoSuchKey', 404)), isAbsent(answered('NoSuchBucket', 404))]).toEqual([true, false]);
});
