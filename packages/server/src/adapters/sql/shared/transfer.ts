/** A value as text, the way PostgreSQL writes it; bytes as they are. Both databases give the same for the same content. */
export type Cell = string | Uint8Array | null;

export interface TableShape {
  name: string;
  /** By name, sorted. */
  columns: readonly string[];
}

/** Sums that a trigger makes from copied rows. They are compared like all other tables. */
export const DERIVED_TABLES: readonly string[] = ['usage_days', 'usage_hours', 'usage_quarters'];

/** One row, in the order of the columns. */
export type Cells = readonly Cell[];

/** What the ledger says about one account. Integers as text: sums may be larger than a number can hold. */
export interface AccountSums {
  account: string;
  requests: string;
  tokens: string;
  costNanoUsd: string;
}

/** The database that rows are copied from. It does not change while it is open. */
export interface TransferSource {
  /** A name that no other installation has; undefined without any account. */
  readonly identity: string | undefined;
  readonly tables: readonly TableShape[];
  count(table: string): number;
  rows(table: TableShape): Iterable<Cells>;
  ledgerSums(): AccountSums[];
  close(): void;
}

export interface CopiedBlob {
  key: string;
  bytes: number;
  sha256: string;
}

/** What a file record says about its bytes. */
export type FileBytes = CopiedBlob;

/** The database that rows are copied to. It also knows whether they are copied, and which blobs are. */
export interface TransferTarget {
  /** Tables that are referred to come before those that refer to them. */
  readonly tables: readonly TableShape[];
  /** When the copy ended with everything equal. Milliseconds since 1970. */
  readonly finishedAt: number | undefined;
  append(table: TableShape, rows: readonly Cells[]): Promise<void>;
  count(table: string): Promise<number>;
  ledgerSums(): Promise<AccountSums[]>;
  files(): Promise<FileBytes[]>;
  copiedBlobs(): Promise<Map<string, CopiedBlob>>;
  recordBlob(blob: CopiedBlob): Promise<void>;
  /** Numbers that the database chooses go on after those that were copied. */
  continueIdentities(): Promise<void>;
  finish(now: number): Promise<void>;
  close(): Promise<void>;
}

/** The copy cannot be made as asked. */
export class TransferError extends Error {
  override readonly name = 'TransferError';
}
