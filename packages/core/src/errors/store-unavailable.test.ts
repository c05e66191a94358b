import { expect, it } from 'vitest';
import { StorageFullError, StoreUnavailableError, toClientError } from './store-unavailable.ts';

it.each([new StoreUnavailableError('PostgreSQL at db.internal is away'), new StorageFullError('/srv/data is full')])(
  'an outage of the storage is a 503 that can be retried, without its details: %s',
  (error) => {
    const answer = toClientError(error);
    expect(answer).toMatchObject({ status: 503, code: 'storage_unavailable', cause: error });
    expect(answer.message).not.toMatch(/internal|srv/);
    expect(answer.retryAfterSeconds).toBeGreaterThan(0);
  },
);

it('anything unknown is a 500', () => {
  expect(toClientError(new Error('x is undefined'))).toMatchObject({ status: 500, code: 'internal_error' });
});
