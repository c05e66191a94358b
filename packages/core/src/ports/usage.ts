import type { ModelBill } from '../domain/batch.ts';
import type { Consumption, DimensionLabel, SeriesNames } from '../domain/measures.ts';
import type { UsageWindow } from '../domain/usage-window.ts';
import type { ReportCaller } from './reports.ts';

/** Only what matches all of them. Undefined: everything. */
export type UsageFilter = { [Id in keyof SeriesNames]?: SeriesNames[Id] | undefined };

/** The ids of a group, in the order of what the report is grouped by. */
export type UsageGroupNames = readonly string[];

/** The last row of a page. */
export interface UsagePosition {
  index: number;
  names: UsageGroupNames;
}

export interface UsageQuery extends UsageWindow, UsageFilter {
  /** Rows to return at most. */
  limit: number;
  /** Only so many groups have rows of their own, those that cost most. The others are one row of each bucket. */
  top?: number | undefined;
  /** The time in which they do, if it is not that of the rows. */
  topOf?: { start: number; end: number } | undefined;
  /** Only the rows behind this one. Not together with `top`. */
  after?: UsagePosition | undefined;
  /** See `seesKeyName`. */
  forOperators?: boolean | undefined;
}

/** What a row or bucket is grouped by; other fields are absent. */
export type UsageGroup = Partial<SeriesNames & Record<DimensionLabel, string | null>> & {
  /** Of a key that replaced another: the first key of its rotations, with which it shares limits and spending. */
  originalKeyId?: string;
};

export interface UsageRow extends Consumption, UsageGroup {
  /** Number of the bucket, see `usageBucketBounds`. */
  index: number;
  /** The sums of all groups that have no rows of their own. */
  isOther?: true;
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
  query(query: UsageQuery, caller?: ReportCaller): Promise<UsageRow[]>;
  spentNanoUsd(query: SpendingQuery): Promise<bigint>;
  /** What the lines of a batch were billed, by model, in the order of their names. */
  batchBills(batchId: string): Promise<ModelBill[]>;
}
