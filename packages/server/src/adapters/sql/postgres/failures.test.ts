import { StorageFullError, StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { DuplicateError } from '@baobab/core/ports/store-errors.ts';
import { DatabaseError } from 'pg';
import { expect, it } from 'vitest';
import { connectionProblem, isConflict, toStoreError } from './failures.ts';

const failure = (code: string) => Object.assign(new DatabaseError('no', 2, 'error'), { code });

it.each([
  ['23505', DuplicateError],
  ['53100', StorageFullError],
  ['57P01', StoreUnavailableError],
  ['57P03', StoreUnavailableError],
  ['08006', StoreUnavailableError],
  ['53300', StoreUnavailableError],
  ['25006', StoreUnavailableError],
  ['28P01', StoreUnavailableError],
  ['57014', StoreUnavailableError],
  ['40001', StoreUnavailableError],
  ['22P02', DatabaseError],
])('turns code %s into an error of the ports', (code, kind) => {
  expect(toStoreError(failure(code))).toBeInstanceOf(kind);
});

it('calls the store unavailable when a connection breaks', () => {
  expect(toStoreError(new Error('Connection terminated unexpectedly'))).toEqual(
    new StoreUnavailableError('PostgreSQL does not answer: Connection terminated unexpectedly.'),
  );
});

it('leaves errors of our own code as they are', () => {
  const error = new RangeError('the integer 9007199254740993 of PostgreSQL is too large');
  expect(toStoreError(error)).toBe(error);
});

it('says that other transactions were first, not that the server is away', () => {
  expect(toStoreError(failure('40001'))).toMatchObject({ message: expect.stringMatching(/^PostgreSQL is too busy: /) });
});

it('tries again only after conflicts with other transactions', () => {
  expect(['40001', '40P01', '23505', '53100'].map((code) => isConflict(failure(code)))).toEqual([
    true,
    true,
    false,
    false,
  ]);
  expect(isConflict(Object.assign(new Error('not of the server'), { code: '40001' }))).toBe(false);
});

it('names the socket of a local server', () => {
  const address = { host: '/run/postgresql', port: 5432, user: 'me', database: 'store' };
  const error = Object.assign(new Error('connect ENOENT'), { code: 'ENOENT' });
  expect(connectionProblem(error, address).message).toBe(
    'PostgreSQL at /run/postgresql cannot be reached: there is no such file or folder. Is it running, and is its address in store right?',
  );
});
