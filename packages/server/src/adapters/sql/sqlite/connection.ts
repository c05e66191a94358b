import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import type { Statement, StatementResult } from './thread-messages.ts';

const PREPARED_STATEMENTS = 200;

/** SQLite's extended result codes for a UNIQUE or PRIMARY KEY violation. */
const DUPLICATE_CODES: readonly unknown[] = [2067, 1555];

export interface Connection {
  execute(statement: Statement): StatementResult;
  /** Runs one statement with each list of parameters. Returns the changed rows of each. */
  executeEach(sql: string, parameters: readonly (readonly SQLInputValue[])[]): number[];
  exec(sql: string): void;
  close(): void;
}

/** One connection with a cache of prepared statements, least recently used first out. */
export function openConnection(path: string, busyTimeoutMs: number): Connection {
  const database = new DatabaseSync(path, { timeout: busyTimeoutMs });
  const prepared = new Map<string, { statement: StatementSync; returnsRows: boolean }>();

  const prepare = (sql: string) => {
    const known = prepared.get(sql);
    if (known) prepared.delete(sql);
    const statement = known?.statement ?? database.prepare(sql);
    const entry = known ?? { statement, returnsRows: statement.columns().length > 0 };
    prepared.set(sql, entry);
    if (prepared.size > PREPARED_STATEMENTS) {
      for (const oldest of prepared.keys()) {
        prepared.delete(oldest);
        break;
      }
    }
    return entry;
  };

  return {
    execute({ sql, parameters }) {
      const { statement, returnsRows } = prepare(sql);
      if (returnsRows) {
        const rows = statement.all(...parameters);
        return { rows, changes: rows.length };
      }
      return { rows: [], changes: Number(statement.run(...parameters).changes) };
    },
    executeEach(sql, parameters) {
      const { statement } = prepare(sql);
      return parameters.map((each) => Number(statement.run(...each).changes));
    },
    exec: (sql) => database.exec(sql),
    close() {
      prepared.clear();
      database.close();
    },
  };
}

/** SQLite's primary result codes for a disk without space: SQLITE_FULL, and SQLITE_IOERR for its shared memory file. */
const FULL_CODES: readonly unknown[] = [13, 10];

export const isDiskFull = (error: unknown): boolean =>
  error instanceof Error &&
  'errcode' in error &&
  typeof error.errcode === 'number' &&
  FULL_CODES.includes(error.errcode & 0xff);

export const isDuplicate = (error: unknown): boolean =>
  error instanceof Error && 'errcode' in error && DUPLICATE_CODES.includes(error.errcode);
