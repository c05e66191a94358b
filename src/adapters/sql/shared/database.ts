import type { Compilable, Kysely } from 'kysely';
import type { Tables } from './tables.ts';

export interface WriteResult<Row> {
  /** What a `returning` clause gave. */
  rows: Row[];
  /** Rows written; with `returning`, rows returned. */
  changes: number;
}

type WriteResults<Statements extends readonly Compilable[]> = {
  [Index in keyof Statements]: Statements[Index] extends Compilable<infer Row> ? WriteResult<Row> : never;
};

/** Values that are the same after a trip through JSON. */
export type PlainValue = string | number | null;

/** What the repositories need of an SQL database, whichever it is. */
export interface SqlDatabase {
  /** Sees everything that was committed before the call. */
  readonly read: Kysely<Tables>;
  /** The same for long reads, on a connection of its own, so that short ones do not wait behind them. */
  readonly report: Kysely<Tables>;
  /** All statements in one transaction and one round trip; durable when it resolves. */
  write<const Statements extends readonly Compilable[]>(statements: Statements): Promise<WriteResults<Statements>>;
  /**
   * The same for one statement, run with each list of parameters in turn: what is written all the time costs a fraction this way.
   * Tells how many rows each of them has changed.
   */
  writeEach(sql: string, parameters: readonly (readonly PlainValue[])[]): Promise<readonly number[]>;
  close(): Promise<void>;
}
