import type { Consumption } from '../domain/measures.ts';
import type { Pricing } from '../domain/model.ts';

/** One billed request. Rows are only ever added. */
export interface LedgerRow extends Consumption {
  /** Billed once: a second row with the same id is ignored. */
  billingId: string;
  requestId: string;
  /** When the request ended, in milliseconds since 1970. */
  time: number;
  accountId: string;
  keyId: string;
  model: string;
  version: string;
  region: string;
  endpoint: string;
  costNanoUsd: number;
  /** The prices that applied. */
  pricing: Pricing;
  discountPercent: number;
  /** HTTP status of the answer; 499 for a cancelled one. */
  status: number;
  durationMs: number;
  firstTokenMs: number | null;
}

export interface Ledger {
  /** Appends all rows or none. Resolves when they are durable, with whether each row is new. */
  append(rows: readonly LedgerRow[]): Promise<readonly boolean[]>;
  /** For rows whose billing ids cannot have been used before: no lookup is needed, so it may be faster. */
  appendFresh(rows: readonly LedgerRow[], options?: FreshRowOptions): Promise<void>;
}

export interface FreshRowOptions {
  /** More will be stored with these rows: they must not wait on this machine for a store that is away. */
  inStore?: boolean;
}
