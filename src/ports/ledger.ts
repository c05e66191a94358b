import type { Pricing } from '../domain/model.ts';
import type { Consumption } from '../domain/pricing.ts';

/** One billed request, as it stands in the books. Rows are only ever added. */
export interface LedgerRow extends Consumption {
  /** What is billed once: a second row with the same id is ignored. */
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
  /** Resolves when all of them are durable, all or none, and tells of each whether it is new. */
  append(rows: readonly LedgerRow[]): Promise<readonly boolean[]>;
  /** The same for rows whose billing ids nobody can have used before: there is nothing to look up, so it may be faster. */
  appendFresh(rows: readonly LedgerRow[]): Promise<void>;
}
