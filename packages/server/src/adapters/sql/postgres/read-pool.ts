import type { PostgresPool, PostgresPoolClient } from 'kysely';
import { DatabaseError, type Pool, type PoolClient, type QueryResult } from 'pg';
import type { RunStatement } from '../shared/report-turns.ts';
import { toStoreError } from './failures.ts';
import { storable } from './statements.ts';

/**
 * The pool as Kysely uses it, with the errors of the ports. A connection whose query failed without an answer of the server is closed:
 * Kysely would put it back, and the next query would wait behind the one that hangs.
 */
export const forReading = (pool: Pick<Pool, 'connect' | 'end' | 'options'>): PostgresPool => ({
  options: pool.options,
  async connect() {
    const client = await pool.connect().catch((error: unknown) => {
      throw toStoreError(error);
    });
    let isBroken = false;
    const query = async (sql: string, parameters: readonly unknown[]): Promise<unknown> => {
      try {
        return await client.query(sql, parameters.map(storable));
      } catch (error) {
        isBroken ||= !(error instanceof DatabaseError);
        throw toStoreError(error);
      }
    };
    return {
      query: query as PostgresPoolClient['query'],
      release: (destroy) => client.release(destroy === true || isBroken),
    };
  },
  end: () => pool.end(),
});

export interface ReportConnections {
  run: RunStatement;
  /** Ends what this process of PostgreSQL is doing. */
  cancel(backend: number): void;
  /** The server's own limit for a statement whose client has vanished. */
  limitMs: number;
}

/** For the statements of one report. Each waits for its turn, then takes a connection; one that is ended is cancelled on the server. */
export const forReport = (
  reports: Pick<Pool, 'connect' | 'options'>,
  { run, cancel, limitMs }: ReportConnections,
): PostgresPool => {
  const query = (sql: string, parameters: readonly unknown[]): Promise<unknown> =>
    run(async (signal, begun) => {
      const client = await reports.connect().catch((error: unknown) => {
        throw toStoreError(error);
      });
      begun();
      return cancellable(client, signal, {
        begin: `begin read only; set local statement_timeout = ${limitMs}; select pg_backend_pid() as backend`,
        run: () => client.query(sql, parameters.map(storable)),
        cancel,
      });
    });
  return {
    options: reports.options,
    connect: async () => ({ query: query as PostgresPoolClient['query'], release: () => {} }),
    end: async () => {},
  };
};

interface Cancellable {
  /** Its last answer says which process of PostgreSQL runs it: a pooler may use another one for each transaction. */
  begin: string;
  run(): Promise<QueryResult>;
  cancel(backend: number): void;
}

async function cancellable(
  client: PoolClient,
  signal: AbortSignal,
  { begin, run, cancel }: Cancellable,
): Promise<QueryResult> {
  const ended = Promise.withResolvers<never>();
  ended.promise.catch(() => {});
  let backend: number | undefined;
  const end = () => {
    if (backend !== undefined) cancel(backend);
    ended.reject(signal.reason);
  };
  signal.addEventListener('abort', end, { once: true });
  let isBroken = false;
  try {
    signal.throwIfAborted();
    const begun = (await Promise.race([client.query(begin), ended.promise])) as unknown as QueryResult[];
    backend = begun.at(-1)?.rows[0]?.backend;
    const result = await Promise.race([run(), ended.promise]);
    await client.query('commit');
    return result;
  } catch (error) {
    isBroken = true;
    throw toStoreError(error);
  } finally {
    signal.removeEventListener('abort', end);
    // The cancellation may arrive late, and must not meet the statement of another report.
    client.release(isBroken || signal.aborted);
  }
}
