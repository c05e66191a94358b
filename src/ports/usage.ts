import type { Consumption } from '../domain/pricing.ts';
import type { UsageWindow } from '../domain/usage-window.ts';

export interface UsageQuery extends UsageWindow {
  accountId: string;
  /** Rows to return at most. */
  limit: number;
}

export interface UsageRow extends Consumption {
  /** Number of the bucket, see `bucketBounds`. */
  index: number;
  /** Present when grouped by it. */
  model?: string;
  region?: string;
  keyId?: string;
  keyName?: string | null;
  requests: number;
  /** A sum may exceed what a number holds exactly. */
  costNanoUsd: bigint;
}

export interface SpendingQuery {
  accountId: string;
  /** Only what this key and the keys that replaced it spent. */
  originalKeyId?: string | undefined;
  start: number;
  end: number;
}

/** Reports computed from the ledger itself, so they cannot differ from it. */
export interface UsageReader {
  /** In the order of time, then of the groups' names. */
  query(query: UsageQuery): Promise<UsageRow[]>;
  spentNanoUsd(query: SpendingQuery): Promise<bigint>;
}
