import type { SQLInputValue, SQLOutputValue } from 'node:sqlite';

/** What travels between the server's thread and the threads that own a SQLite connection. */
export interface Statement {
  sql: string;
  parameters: readonly SQLInputValue[];
}

export interface StatementResult {
  rows: Record<string, SQLOutputValue>[];
  changes: number;
}

export type ThreadRole = 'writer' | 'reader';

export interface ThreadOptions {
  path: string;
  role: ThreadRole;
  /** `full`: a commit survives a power cut. `normal`: it survives the death of the process, but not always a power cut. */
  synchronous: 'full' | 'normal';
  busyTimeoutMs: number;
}

/** A statement text is sent once, however many rows it writes: copying it for each of them cost more than the rows. */
export type ThreadRequest =
  | { id: number; texts: readonly string[]; steps: readonly (readonly [text: number, Statement['parameters']])[] }
  | 'close';

export type ThreadReply =
  | { id: number; results: StatementResult[] }
  | { id: number; failure: { message: string; duplicate: boolean } };
