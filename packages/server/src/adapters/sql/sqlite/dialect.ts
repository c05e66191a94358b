import type { SQLInputValue } from 'node:sqlite';
import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import type { Statement, StatementResult } from './thread-messages.ts';

export interface DialectOptions {
  execute(statement: Statement): Promise<StatementResult>;
  /** One caller owns the connection from begin to commit. Otherwise many callers send queries at once. */
  exclusive: boolean;
}

class Adapter extends SqliteAdapter {
  readonly #exclusive: boolean;

  constructor(exclusive: boolean) {
    super();
    this.#exclusive = exclusive;
  }

  override get supportsMultipleConnections(): boolean {
    return !this.#exclusive;
  }

  /** SQLite creates tables inside a transaction, so a failed migration leaves nothing behind. */
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

/** Kysely over any function that executes a SQLite statement, in this thread or in another one. */
export function sqliteDialect(options: DialectOptions): Dialect {
  const connection: DatabaseConnection = {
    async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
      const parameters = query.parameters as readonly SQLInputValue[];
      const { rows, changes } = await options.execute({ sql: query.sql, parameters });
      return { rows: rows as R[], numAffectedRows: BigInt(changes) };
    },
    streamQuery() {
      throw new Error('rows are read page by page, not streamed');
    },
  };
  const command = async (sql: string) => {
    if (!options.exclusive) throw new Error('write with one list of statements instead of a transaction');
    await connection.executeQuery(CompiledQuery.raw(sql));
  };
  const driver: Driver = {
    init: async () => {},
    acquireConnection: async () => connection,
    // Immediate: waits for the write lock now instead of failing in the middle of the transaction.
    beginTransaction: () => command('begin immediate'),
    commitTransaction: () => command('commit'),
    rollbackTransaction: () => command('rollback'),
    releaseConnection: async () => {},
    destroy: async () => {},
  };
  return {
    createDriver: () => driver,
    createQueryCompiler: () => new SqliteQueryCompiler(),
    createAdapter: () => new Adapter(options.exclusive),
    createIntrospector: (db) => new SqliteIntrospector(db),
  };
}
