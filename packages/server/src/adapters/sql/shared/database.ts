import type { ReportCaller } from '@baobab/core/ports/reports.ts';
import { stringifyInSlices } from '@baobab/core/runtime/json-slices.ts';
import type { AliasedRawBuilder, Compilable, Expression, Kysely, RawBuilder } from 'kysely';
import type { Tables } from './tables.ts';

export interface WriteResult<Row> {
  /** What a `returning` clause gave. */
  rows: Row[];
  /** Rows written; with `returning`, rows returned. */
  changes: number;
}

export type WriteResults<Statements extends readonly Compilable[]> = {
  [Index in keyof Statements]: Statements[Index] extends Compilable<infer Row> ? WriteResult<Row> : never;
};

/** One answer for each statement. The type of its rows follows from the statement. */
export function answersTo<const Statements extends readonly Compilable[]>(
  statements: Statements,
  answers: readonly WriteResult<unknown>[],
): WriteResults<Statements> {
  if (!areAnswersTo(statements, answers)) {
    throw new RangeError(`${answers.length} answers to ${statements.length} statements`);
  }
  return answers;
}

const areAnswersTo = <Statements extends readonly Compilable[]>(
  statements: Statements,
  answers: unknown,
): answers is WriteResults<Statements> => Array.isArray(answers) && answers.length === statements.length;

export interface WriteOptions {
  /** How many of the first statements are guards; 1 by default. */
  guards?: number;
  /** Must succeed on a full disk too, such as revoking a key. Small. */
  urgent?: boolean;
}

export interface IsolationOptions {
  /**
   * Locks of rows are enough: each statement decides by the rows that it changes, or by rows that others change only while they hold a
   * lock that an earlier statement has taken. Take them in one order. Transactions then wait for each other, where PostgreSQL would
   * otherwise let one of them start over.
   */
  byRowLocks?: boolean;
}

/** Values that are the same after a trip through JSON. */
export type PlainValue = string | number | null;

/** Values of one type for each column of given rows, by the name that both databases have for it. */
interface GivenTypes {
  text: string;
  bigint: number;
}
export type GivenColumns = Readonly<Record<string, keyof GivenTypes>>;
export type GivenRow<Columns extends GivenColumns> = { readonly [Name in keyof Columns]: GivenTypes[Columns[Name]] };

export interface GivenRows<Columns extends GivenColumns> {
  columns: Columns;
  json: string;
}

/** Neither database reads U+0000 or half a surrogate pair out of JSON. */
const inJson = (value: string | number) =>
  typeof value === 'string' ? value.replaceAll('\0', '\ufffd').toWellFormed() : value;

/** Rows for `given`, as one parameter. */
export const givenRows = <const Columns extends GivenColumns>(
  columns: Columns,
  rows: readonly GivenRow<Columns>[],
): Promise<GivenRows<Columns>> => {
  const texts = rows.map((row) =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [name, inJson(value)])),
  );
  return Promise.resolve(stringifyInSlices(texts)).then((json) => ({ columns, json }));
};

/** A table that rows are added to all the time. Make one constant for each: a dialect may prepare its statement once. */
export interface BulkTarget<Name extends keyof Tables = keyof Tables> {
  table: Name;
  columns: readonly (keyof Tables[Name] & string)[];
  /** A row whose value of this column is stored already is left out. */
  uniqueColumn: keyof Tables[Name] & string;
}

/** Rows of one table that wait until they are inserted together. */
export interface RowGroup {
  /** How many were added. */
  readonly size: number;
  /** Values in the order of the target's columns. */
  add(values: readonly PlainValue[]): void;
  /** Inserts those that are not stored yet, in one transaction. Once. */
  insert(): Promise<void>;
}

/**
 * What the repositories need of an SQL database. A dialect implements it in its own folder, together with its migrations; the
 * repositories use only SQL that every dialect understands.
 *
 * - Integers come back as numbers. Sums that may be larger than a number can hold are cast to text by the query.
 * - A broken unique rule rejects with a DuplicateError, a full disk with a StorageFullError.
 * - Transactions behave as if they ran one after the other, unless they are `byRowLocks`. SQLite has one writer; another dialect asks
 *   for that isolation.
 */
export interface SqlDatabase {
  /** Sees everything that was committed before the call. */
  readonly read: Kysely<Tables>;
  /**
   * The same for one report, whose statements take turns with those of other accounts (`report-turns.ts`). Rejects with a
   * ReportTooLongError at its limit. Without a caller, it is work of the server itself, which has no limit.
   */
  report(caller?: ReportCaller): Kysely<Tables>;
  /** A table to select from by one of its indexes. SQLite would choose by statistics that may be old; PostgreSQL has no such hint. */
  byIndex<Name extends keyof Tables>(table: Name, index: string): AliasedRawBuilder<Tables[Name], Name>;
  /**
   * Whether a column has this value, for a page in the order of an index that begins with the column; the page is ordered by the column, too.
   * PostgreSQL would otherwise read the primary key in its order, with the rows of everybody, where one account has most of them.
   */
  pagedBy(column: string, value: string): RawBuilder<boolean>;
  /**
   * Whether a column has one of few values, which are sought one after the other in an index that begins with the column. PostgreSQL would
   * otherwise join by statistics that may be old.
   */
  soughtIn(column: string, values: Expression<unknown>): RawBuilder<boolean>;
  /** The period of sums that are sought by time and not by series, as the index for it has it: no other index then seems to fit. */
  readonly periodOfAll: RawBuilder<number>;
  /** Rows as a table of a statement, which is the same statement for any number of them. For lists that a client has sent. */
  given<Columns extends GivenColumns, Alias extends string>(
    alias: Alias,
    rows: GivenRows<Columns>,
  ): AliasedRawBuilder<GivenRow<Columns>, Alias>;
  /** All statements in one transaction and one round trip; durable when it resolves. */
  write<const Statements extends readonly Compilable[]>(
    statements: Statements,
    options?: IsolationOptions,
  ): Promise<WriteResults<Statements>>;
  /** The same, but only if each guard changes a row; undefined otherwise, and nothing is written. */
  writeIf<const Statements extends readonly Compilable[]>(
    statements: Statements,
    options?: WriteOptions & IsolationOptions,
  ): Promise<WriteResults<Statements> | undefined>;
  /** Adds rows in one transaction, values in the order of the target's columns. Returns for each whether it was new. */
  insertNew<Name extends keyof Tables>(
    target: BulkTarget<Name>,
    rows: readonly (readonly PlainValue[])[],
  ): Promise<readonly boolean[]>;
  /** For rows that wait for a while: the group keeps no objects for them, where the dialect can do without. */
  collect<Name extends keyof Tables>(target: BulkTarget<Name>): RowGroup;
  /** Removes deleted rows from the files of the database too, where the dialect leaves that to us. */
  purge(): Promise<void>;
  /** Makes room for the ledger rows of this month and the next ones, where the dialect stores months apart. */
  prepareMonths(now: number): Promise<void>;
  /** Counts the rows of tables that have grown much, for the choice of indexes, where the dialect leaves that to us. */
  refreshStatistics(): Promise<void>;
  /** Of the database, in milliseconds since 1970. */
  time(): Promise<number>;
  close(): Promise<void>;
}
