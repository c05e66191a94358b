import { setTimeout as delay } from 'node:timers/promises';
import { DatabaseError, type Pool, type PoolClient, type QueryResult } from 'pg';
import { isConflict, toStoreError } from './failures.ts';

export interface Statement {
  text: string;
  values: unknown[];
}

const SERIALIZABLE = 'begin isolation level serializable';
/** A statement waits for the transaction that has locked its row, then looks at the row again. */
const READ_COMMITTED = 'begin isolation level read committed';

/** As long as SQLite waits for its lock. */
const GIVE_UP_AFTER_MS = 10_000;
const LONGEST_PAUSE_MS = 50;

/** Tries again while other transactions are first. */
export async function withRetries<T>(attempt: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + GIVE_UP_AFTER_MS;
  for (let pauseMs = 1; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    try {
      return await attempt();
    } catch (error) {
      if (!isConflict(error) || performance.now() > deadline) throw toStoreError(error);
      await delay(Math.random() * pauseMs);
    }
  }
}

type Outcome = PromiseSettledResult<QueryResult>;

/** Sends all before the first answers: one round trip. Those after a failed one fail too. */
const send = (client: PoolClient, statements: readonly (Statement | string)[]): Promise<Outcome[]> =>
  Promise.allSettled(statements.map((statement) => client.query(statement)));

function resultOf(outcome: Outcome): QueryResult {
  if (outcome.status === 'rejected') throw outcome.reason;
  return outcome.value;
}

const rollBack = (client: PoolClient) => client.query('rollback');

/** Undefined: a guard changed no row, and nothing was written. */
type Attempt = (
  client: PoolClient,
  statements: readonly Statement[],
  guards: number,
) => Promise<QueryResult[] | undefined>;

const attemptAlone: Attempt = async (client, statements, guards) => {
  if (guards === 0) {
    // A failed statement makes the commit a rollback.
    const outcomes = await send(client, [SERIALIZABLE, ...statements, 'commit']);
    return outcomes.map(resultOf).slice(1, -1);
  }
  const results: QueryResult[] = [];
  try {
    const [begun, ...guarded] = await send(client, [SERIALIZABLE, ...statements.slice(0, guards)]);
    resultOf(begun as Outcome);
    for (const outcome of guarded) {
      const result = resultOf(outcome);
      results.push(result);
      if (result.rowCount !== 0) continue;
      await rollBack(client);
      return undefined;
    }
  } catch (error) {
    if (error instanceof DatabaseError) await rollBack(client);
    throw error;
  }
  const rest = await send(client, [...statements.slice(guards), 'commit']);
  return [...results, ...rest.map(resultOf).slice(0, -1)];
};

const NO_ROW = 'a guard has changed no row';

/** Fails if the guard changes no row. It must have no `returning` of its own. */
const failing = ({ text, values }: Statement): Statement => ({
  text: `with guard as (${text} returning 1) select coalesce(nullif(count(*), 0)::text, '${NO_ROW}')::int as changes from guard`,
  values,
});

/** Everything in one round trip, so that locks are never held while this process is slow or cut off. */
const attemptByRowLocks: Attempt = async (client, statements, guards) => {
  const sent = statements.map((statement, index) => (index < guards ? failing(statement) : statement));
  const outcomes = await send(client, [READ_COMMITTED, ...sent, 'commit']);
  const failure = outcomes.find((outcome) => outcome.status === 'rejected')?.reason;
  if (failure instanceof DatabaseError && failure.message.includes(NO_ROW)) return undefined;
  const results = outcomes.map(resultOf).slice(1, -1);
  return results.map((result, index) => (index < guards ? { ...result, rowCount: result.rows[0].changes } : result));
};

export interface TransactionOptions {
  /** The first statements, each of which must change a row. */
  guards: number;
  /** Otherwise as if no other transaction ran beside it. */
  byRowLocks: boolean;
}

/** Undefined: a guard changed no row, and nothing was written. The pool must be one that pipelines. */
export const runTransaction = (
  pool: Pool,
  statements: readonly Statement[],
  { guards, byRowLocks }: TransactionOptions,
): Promise<QueryResult[] | undefined> =>
  withRetries(async () => {
    const client = await pool.connect();
    try {
      const results = await (byRowLocks ? attemptByRowLocks : attemptAlone)(client, statements, guards);
      client.release();
      return results;
    } catch (error) {
      // Without an answer of the server, the state of the connection is unknown.
      client.release(!(error instanceof DatabaseError));
      throw error;
    }
  });
