import { StorageFullError, StoreAwayError, StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { DuplicateError } from '@baobab/core/ports/store-errors.ts';
import { DatabaseError } from 'pg';
import { expect, it } from 'vitest';
import { connectionProblem, isConflict, toStoreError } from './failures.ts';

const failure = (code: string) => Object.assign(new DatabaseError('no', 2, 'error'), { code });

it.each([
  ['23505', DuplicateError],
  ['53100', StorageFullError],
  ['57P01', StoreAwayError],
  ['57P03', StoreAwayError],
  ['08006', StoreAwayError],
  ['53300', StoreAwayError],
  ['25006', StoreAwayError],
  ['28P01', StoreUnavailableError],
  ['57014', StoreAwayError],
  ['40001', StoreUnavailableError],
  ['22P02', DatabaseError],
])('turns code %s into an error of the ports', (code, kind) => {
  expect(toStoreError(failure(code))).toBeInstanceOf(kind);
});

it('calls the store unavailable when a connection breaks', () => {
  expect(toStoreError(new Error('Connection terminated unexpectedly'))).toEqual(
    new StoreAwayError('PostgreSQL does not answer: Connection terminated unexpectedly.'),
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

const ADDRESS = { host: 'db.internal', port: 5432, user: 'me', database: 'store' };

it.each([
  ['refuses connections', Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })],
  ['has no name yet', Object.assign(new Error('getaddrinfo'), { code: 'ENOTFOUND' })],
  ['is starting', failure('57P03')],
  ['has no connection left', failure('53300')],
  ['stops', new Error('Connection terminated unexpectedly')],
])('is worth waiting for when it %s', (_, error) => {
  expect(connectionProblem(error, ADDRESS)).toBeInstanceOf(StoreAwayError);
});

it.each([
  ['the password', failure('28P01')],
  ['the user', failure('28000')],
  ['the database', failure('3D000')],
  ['its certificate', Object.assign(new Error('self-signed certificate'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })],
])('is not worth waiting for when an operator must mend %s', (_, error) => {
  expect(connectionProblem(error, ADDRESS)).not.toBeInstanceOf(StoreAwayError);
});

it('names the socket of a local server', () => {
  const address = { host: '/run/postgresql', port: 5432, user: 'me', database: 'store' };
  const error = Object.assign(new Error('connect ENOENT'), { code: 'ENOENT' });
  expect(connectionProblem(error, address).message).toBe(
    'PostgreSQL at /run/postgresql cannot be reached: there is no such file or folder. Is it running, and is its address in store right?',
  );
});
