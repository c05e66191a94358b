import { setTimeout as delay } from 'node:timers/promises';
import { DatabaseError, type Pool, type PoolClient, type QueryResult } from 'pg';
import { isConflict, toStoreError } from './failures.ts';

export interface Statement {
  text: string;
  values: unknown[];
}

const BEGIN = 'begin isolation level serializable';

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

/** One attempt. Undefined: a guard changed no row, and nothing was written. */
async function attempt(
  client: PoolClient,
  statements: readonly Statement[],
  guards: number,
): Promise<QueryResult[] | undefined> {
  if (guards === 0) {
    // A failed statement makes the commit a rollback.
    const outcomes = await send(client, [BEGIN, ...statements, 'commit']);
    return outcomes.map(resultOf).slice(1, -1);
  }
  const results: QueryResult[] = [];
  try {
    const [begun, ...guarded] = await send(client, [BEGIN, ...statements.slice(0, guards)]);
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
}

/** Runs the statements as if no other transaction ran beside them. The pool must be one that pipelines. */
export const runTransaction = (
  pool: Pool,
  statements: readonly Statement[],
  guards: number,
): Promise<QueryResult[] | undefined> =>
  withRetries(async () => {
    const client = await pool.connect();
    try {
      const results = await attempt(client, statements, guards);
      client.release();
      return results;
    } catch (error) {
      // Without an answer of the server, the state of the connection is unknown.
      client.release(!(error instanceof DatabaseError));
      throw error;
    }
  });
