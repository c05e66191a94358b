import { StorageFullError, StoreAwayError, StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { DuplicateError } from '@baobab/core/ports/store-errors.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import { DatabaseError } from 'pg';

/** Codes of https://www.postgresql.org/docs/current/errcodes-appendix.html */
const UNIQUE_VIOLATION = '23505';
const DISK_FULL = '53100';
const SERIALIZATION_FAILURE = '40001';
const DEADLOCK_DETECTED = '40P01';
const INVALID_PASSWORD = '28P01';
const INVALID_AUTHORIZATION = '28000';
const UNKNOWN_DATABASE = '3D000';

/** Nothing is wrong with the statement: the same one works when the server does. */
const AWAY = [
  '08', // connection failures
  '25006', // read only: a standby, after a failover
  '25P', // it waited too long inside a transaction
  '40', // undone by the server; conflicts have a message of their own
  '53', // no memory, or no connection left
  '55P03', // lock timeout
  '57', // stopped or cancelled by the operator, or not started yet
  '58', // failures of its disk
];
/** An operator has to mend these. */
const REFUSED = [
  '28', // the password or the rights were changed
  UNKNOWN_DATABASE,
];

const starts = (code: string, classes: readonly string[]): boolean => classes.some((start) => code.startsWith(start));

const codeOf = (error: unknown): string => (error as { code?: unknown } | undefined)?.code?.toString() ?? '';

/** Another transaction was first. Nothing was written, and another attempt may succeed. */
export const isConflict = (error: unknown): boolean =>
  error instanceof DatabaseError && [SERIALIZATION_FAILURE, DEADLOCK_DETECTED].includes(codeOf(error));

/** The error of the ports for an error of PostgreSQL. */
export function toStoreError(error: unknown): unknown {
  const { message } = error as Error;
  // An error of our own code, such as a value that a number cannot hold.
  if (error instanceof TypeError || error instanceof RangeError) return error;
  if (!(error instanceof DatabaseError)) {
    return new StoreAwayError(`PostgreSQL does not answer: ${systemReason(error)}.`, { cause: error });
  }
  const code = codeOf(error);
  if (code === UNIQUE_VIOLATION) return new DuplicateError(message, { cause: error });
  if (code === DISK_FULL) return new StorageFullError(`The database cannot be written: ${message}.`, { cause: error });
  if (isConflict(error)) {
    const text = `PostgreSQL is too busy: other transactions were first for as long as we tried (${message}).`;
    return new StoreUnavailableError(text, { cause: error });
  }
  const text = `PostgreSQL does not answer: ${message}.`;
  if (starts(code, AWAY)) return new StoreAwayError(text, { cause: error });
  return starts(code, REFUSED) ? new StoreUnavailableError(text, { cause: error }) : error;
}

const PROBLEMS: readonly [code: string, problem: string][] = [
  ['25006', 'the database is read-only'],
  ['28', 'the database refuses the password or the user'],
  ['53300', 'the database has no connection left'],
];

/** What everybody may know of an outage: no addresses, no names. */
export function problemInWords(error: StoreUnavailableError): string {
  if (error.cause === undefined) return inWords(error.message);
  const code = codeOf(error.cause);
  return PROBLEMS.find(([start]) => code.startsWith(start))?.[1] ?? 'the database does not answer';
}

/** Of our own messages. */
const inWords = (message: string): string => message.replace('PostgreSQL', 'the database').replace(/\.$/, '');

export const withStoreErrors = <T>(work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    throw error instanceof StoreUnavailableError ? error : toStoreError(error);
  });

export interface ServerAddress {
  host: string;
  port: number;
  user: string | undefined;
  database: string | undefined;
}

const UNREACHABLE = [
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
];

/** Tells the operator why the server cannot be used. Contains no password. */
export function connectionProblem(error: unknown, { host, port, user, database }: ServerAddress): Error {
  const place = host.startsWith('/') ? host : `${host}:${port}`;
  const problem = (text: string) => new StoreUnavailableError(text, { cause: error });
  const away = (text: string) => new StoreAwayError(text, { cause: error });
  const code = codeOf(error);
  const { message } = error as Error;
  if (UNREACHABLE.includes(code)) {
    return away(
      `PostgreSQL at ${place} cannot be reached: ${systemReason(error)}. Is it running, and is its address in store right?`,
    );
  }
  // The last is what pg says of a server that stops.
  if (/timeout|terminated unexpectedly/.test(message)) {
    return away(`PostgreSQL at ${place} does not answer. Is its address in store right, and does a firewall allow it?`);
  }
  if (code === INVALID_PASSWORD || message.startsWith('SASL')) {
    return problem(`PostgreSQL at ${place} refuses user '${user}': the password in store is wrong or missing.`);
  }
  if (code === INVALID_AUTHORIZATION) return problem(`PostgreSQL at ${place} refuses user '${user}': ${message}.`);
  if (code === UNKNOWN_DATABASE) {
    return problem(
      `PostgreSQL at ${place} has no database '${database}'. Create it: createdb -E UTF8 -T template0 ${database}`,
    );
  }
  const text = `PostgreSQL at ${place} cannot be used: ${systemReason(error)}.`;
  return starts(code, AWAY) ? away(text) : problem(text);
}
