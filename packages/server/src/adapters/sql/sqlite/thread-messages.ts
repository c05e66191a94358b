import type { SQLInputValue, SQLOutputValue } from 'node:sqlite';

/** Messages between the server's thread and the threads that own a SQLite connection. */
export interface Statement {
  sql: string;
  parameters: readonly SQLInputValue[];
}

export interface StatementResult {
  rows: Record<string, SQLOutputValue>[];
  changes: number;
}

export type FailureKind = 'duplicate' | 'disk full' | 'other';

export type ThreadRole = 'writer' | 'reader';

export interface ThreadOptions {
  path: string;
  role: ThreadRole;
  /** `full`: a commit survives a power cut. `normal`: it survives a killed process, but not always a power cut. */
  synchronous: 'full' | 'normal';
  busyTimeoutMs: number;
  /** Space that the writer keeps for urgent writes when the disk is full. */
  reserveBytes: number;
}

/** Each statement text is sent once, however many rows it writes: copying it for every row cost more than the rows. */
export interface StatementList {
  /** Nothing is written unless each of these first steps changes a row. */
  guards: number;
  /** May use the reserved space when the disk is full. */
  urgent: boolean;
  texts: readonly string[];
  steps: readonly (readonly [text: number, Statement['parameters']])[];
}

/** One statement for many lists of parameters, as JSON: the structured clone of nested arrays takes longer. Bytes are moved, not copied. */
export interface RepeatedStatement {
  sql: string;
  json: string | Uint8Array<ArrayBuffer>;
  /** Rows of the ledger, which are added to its sums too. */
  isSummed: boolean;
}

export type ThreadWork = { id: number } & (StatementList | RepeatedStatement);

/** `reopen`: the connection is opened anew, and reads the statistics of the database again. */
export type ThreadRequest = ThreadWork | 'reopen' | 'close';

export type ThreadReply =
  | { id: number; results: StatementResult[] }
  | { id: number; changes: number[] }
  /** A guard changed no row. */
  | { id: number; refused: true }
  | { id: number; failure: { message: string; kind: FailureKind } };

/** What the process of a report says: that it has started, or the answer to a statement. */
export type ReportReply = 'ready' | { result: StatementResult } | { failure: string };
