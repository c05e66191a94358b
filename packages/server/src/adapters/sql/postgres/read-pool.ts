import type { PostgresPool, PostgresPoolClient } from 'kysely';
import { DatabaseError, type Pool } from 'pg';
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
