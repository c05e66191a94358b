import type { Consumption, DimensionLabel, SeriesNames } from '../domain/measures.ts';
import type { UsageWindow } from '../domain/usage-window.ts';

/** Only what matches all of them. Undefined: everything. */
export type UsageFilter = { [Id in keyof SeriesNames]?: SeriesNames[Id] | undefined };

export interface UsageQuery extends UsageWindow, UsageFilter {
  /** Rows to return at most. */
  limit: number;
}

/** What a row or bucket is grouped by; other fields are absent. */
export type UsageGroup = Partial<SeriesNames & Record<DimensionLabel, string | null>>;

export interface UsageRow extends Consumption, UsageGroup {
  /** Number of the bucket, see `usageBucketBounds`. */
  index: number;
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
