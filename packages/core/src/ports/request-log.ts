import type { UpstreamAttempt } from '../domain/attempts.ts';
import type { Consumption } from '../domain/measures.ts';
import type { OffsetSpan } from '../domain/time/time-zone.ts';
import type { ReportCaller } from './reports.ts';
import type { RequestText } from './request-texts.ts';

/** A request that has ended. Prompts and answers are kept apart, see `request-texts.ts`. */
export interface RequestEntry extends Consumption {
  id: string;
  /** When it ended, in milliseconds since 1970. */
  time: number;
  accountId: string;
  keyId: string;
  endpoint: string;
  /** Null: refused before it was known. */
  model: string | null;
  version: string | null;
  region: string | null;
  status: number;
  /** Error code. */
  code: string | null;
  /** What the client was told. Null without an error, and for accounts with zero retention. */
  message: string | null;
  costNanoUsd: number;
  durationMs: number;
  firstTokenMs: number | null;
  /** It got the stored answer of an earlier idempotent request. */
  replayed: boolean;
  attempts: readonly UpstreamAttempt[];
}

export interface RequestFilter {
  /** Undefined: all accounts. */
  accountId?: string | undefined;
  /** Milliseconds since 1970, inclusive. */
  start?: number | undefined;
  /** Exclusive. */
  end?: number | undefined;
  model?: string | undefined;
  keyId?: string | undefined;
  region?: string | undefined;
  endpoint?: string | undefined;
  /** Lowest and highest. */
  status?: readonly [number, number] | undefined;
  id?: string | undefined;
}

/** The last entry of a page. */
export interface RequestPosition {
  time: number;
  id: string;
}

export interface LatencyQuery {
  accountId?: string | undefined;
  model?: string | undefined;
  /** Only those of these models. */
  models?: readonly string[] | undefined;
  keyId?: string | undefined;
  start: number;
  end: number;
  bucket: 'five_minutes' | 'hour' | 'day';
  /** Offsets of the time zone. */
  offsets: readonly OffsetSpan[];
}

/** How many requests of one bucket took so long. */
export interface LatencyCount {
  /** Its number, see `zonedBucketStart`. */
  bucket: number;
  /** See `domain/latency.ts`. */
  bin: number;
  count: number;
}

/** Entries that are stored together. */
export interface RequestGroup {
  /** How many were added. */
  readonly size: number;
  add(entry: RequestEntry): void;
  /** Stores those that are not stored yet. Once. */
  store(): Promise<void>;
}

/** The requests of the last weeks, also those that failed and cost nothing. The ledger, not this, is what bills are made from. */
export interface RequestLog {
  /** Begins a group, to which entries are added as they come. */
  collect(): RequestGroup;
  /** Newest first, those before the position. */
  list(
    filter: RequestFilter,
    page: { limit: number; before?: RequestPosition | undefined },
    caller?: ReportCaller,
  ): Promise<RequestEntry[]>;
  latencies(
    query: LatencyQuery,
    caller?: ReportCaller,
  ): Promise<{ durations: (LatencyCount & { status: number })[]; firstTokens: LatencyCount[] }>;
  /** Removes some entries that are older, and says how many. */
  removeOlder(than: number): Promise<number>;
  /** Accounts that have more entries. Reads all of the list. */
  accountsBeyond(newest: number): Promise<string[]>;
  /** Removes some entries of an account beyond its newest, and says how many. */
  removeBeyond(accountId: string, newest: number): Promise<number>;
}

/** Where requests are recorded when they end. */
export interface RequestSink {
  /** `text` only for accounts that keep prompts and answers. */
  record(entry: RequestEntry, text?: RequestText): void;
}
