import type { Batch, BatchEndpoint, BatchOutcome, BatchProblem, ModelBill } from '../domain/batch.ts';
import type { StoredFile } from '../domain/file.ts';
import type { Quota } from './quotas.ts';

export interface BatchQuery {
  /** Undefined: of every account, for operators. */
  accountId?: string | undefined;
  limit: number;
  /** The page begins after this id. */
  after?: string | undefined;
  /** The page ends before this id. */
  before?: string | undefined;
  endpoint?: BatchEndpoint | undefined;
}

/** Where the answer of a line is: bytes of a blob. */
export interface RecordedLine {
  line: number;
  failed: boolean;
  /** A failed line that did not run before the batch expired. Only counted, not stored with the line. */
  expired?: boolean | undefined;
  blobKey: string;
  offset: number;
  bytes: number;
}

export interface BatchEnd {
  outcome: BatchOutcome;
  problems?: readonly BatchProblem[] | undefined;
  output?: StoredFile | undefined;
  errors?: StoredFile | undefined;
  bills: readonly ModelBill[];
  now: number;
}

export interface BatchClaim {
  ownerId: string;
  now: number;
  leaseUntil: number;
  /** Batches to claim at most. */
  limit: number;
  /** Batches of one account that the owner may hold. */
  perAccount: number;
  /** Batches that the owner is working on. */
  holding: readonly string[];
}

export type BatchCreation = 'created' | 'input gone' | 'too many active' | 'quota exceeded';

/** An input whose record is stored together with the batch. */
export interface NewInput {
  file: StoredFile;
  quota: Quota;
}

/** Consecutive lines of the input that one process works on. */
export interface BatchSlice {
  /** Identifies the slice within its batch. */
  firstLine: number;
  lastLine: number;
  /** Where its lines are in the input file. */
  start: number;
  bytes: number;
}

/** What the validation found. */
export interface ValidatedBatch {
  total: number;
  problems: readonly BatchProblem[];
  slices: readonly BatchSlice[];
  now: number;
}

/** A batch and a process that works on it. */
export interface OwnedBatch {
  id: string;
  ownerId: string;
}

/** Newest first in lists. */
export interface BatchRecords {
  /** Stores a batch and attaches its input, unless the account has `maxActive` batches that have not ended. 0: no limit. */
  create(batch: Batch, maxActive: number, input?: NewInput): Promise<BatchCreation>;
  get(id: string): Promise<Batch | undefined>;
  list(query: BatchQuery): Promise<Batch[]>;
  /** Which of these were cancelled. */
  cancelled(ids: readonly string[]): Promise<Set<string>>;
  /** Requests the end of a batch. Only one that has not begun to finalize can be cancelled. */
  cancel(id: string, now: number): Promise<void>;
  /** Deletes the records of those batches that have ended. */
  forget(ids: readonly string[]): Promise<void>;
}

/**
 * One process claims a batch to validate it, and one to write its result files. In between, any number of processes work on its
 * slices and none owns the batch (see `BatchSliceRepository`).
 */
export interface BatchClaims {
  /**
   * Claims batches that are to be validated or ended and have no valid lease. Accounts for which the owner works least come first, then
   * the oldest.
   */
  claim(claim: BatchClaim): Promise<Batch[]>;
  /** Claims this batch if it has no valid lease and no process works on its slices. From then on no slice can be claimed or recorded. */
  claimWhole(batch: OwnedBatch, lease: { now: number; until: number }): Promise<boolean>;
  /** Extends the leases and returns the ids that the owner still has. */
  renew(ownerId: string, ids: readonly string[], leaseUntil: number): Promise<Set<string>>;
  /** Gives a batch back. */
  release(batch: OwnedBatch): Promise<void>;
  /** Ends the leases of all other owners: for a process that knows it is alone. */
  releaseOthers(ownerId: string): Promise<void>;
}

/**
 * The work on a batch and its lines. Calls that take an `OwnedBatch` reject with a LeaseLostError, and change nothing, when the process
 * no longer owns the batch.
 */
export interface BatchProgress {
  /** Removes what an interrupted validation recorded. A total that was known before stays. */
  restart(batch: OwnedBatch): Promise<void>;
  /** Ends the validation and the ownership. The batch is in progress from now on, unless it was cancelled meanwhile. */
  begin(batch: OwnedBatch, validated: ValidatedBatch): Promise<void>;
  /** Records lines that the validation found bad, and counts them, all or none. Rejects when one of them is recorded already. */
  record(batch: OwnedBatch, lines: readonly RecordedLine[]): Promise<void>;
  /** Numbers of recorded lines above `after`, up to `last`, in order. */
  recordedLines(id: string, page: { after: number; last: number; limit: number }): Promise<number[]>;
  recorded(id: string, page: { failed: boolean; after: number; limit: number }): Promise<RecordedLine[]>;
  /** Sets the final status and the result files, and removes the lease, the attachment, the lines and the slices: all or none. */
  end(batch: OwnedBatch, end: BatchEnd): Promise<void>;
}

export interface BatchRepository extends BatchRecords, BatchClaims, BatchProgress {}

export interface JoinQuery {
  now: number;
  /** Batches to return at most. */
  limit: number;
  /** Batches of one account that the process may work on. */
  perAccount: number;
  /** Batches that the process is working on. */
  holding: readonly string[];
  /** Only batches of accounts that no process works for. */
  unserved: boolean;
}

interface SliceClaim {
  now: number;
  until: number;
  /** First lines of the slices that the owner works on, even when their leases have ended. */
  holding: readonly number[];
}

/** Results that are stored together. */
interface SliceResults {
  lines: readonly RecordedLine[];
  /** First lines of the slices that these lines are part of. */
  slices: readonly number[];
  /** First lines of the slices that have all their results now. */
  finished: readonly number[];
  now: number;
}

/**
 * The slices of batches in progress that are not finished. Any number of processes work on the slices of one batch.
 *
 * A process claims a slice before it runs its lines, and loses it when its lease ends and another process claims it.
 */
export interface BatchSliceRepository {
  /** Batches with slices that can be claimed. Accounts that the fewest processes work for come first, then the oldest batch. */
  joinable(query: JoinQuery): Promise<Batch[]>;
  /** Claims the first slice without a valid lease. Undefined when there is none or the batch is no longer in progress. */
  claim(batch: OwnedBatch, claim: SliceClaim): Promise<BatchSlice | undefined>;
  /** Extends the leases of these slices and returns the first lines of those that the owner still has. */
  renew(batch: OwnedBatch, firstLines: readonly number[], leaseUntil: number): Promise<Set<number>>;
  /** Gives back all slices that the owner has of this batch. */
  release(batch: OwnedBatch): Promise<void>;
  /** Ends the leases of all other owners: for a process that knows it is alone. */
  releaseOthers(ownerId: string): Promise<void>;
  /**
   * Records lines, counts them and removes finished slices, all or none. With its last slice the batch begins to finalize. Rejects with
   * a LeaseLostError when the owner has lost one of the slices or the batch is about to end.
   */
  record(batch: OwnedBatch, results: SliceResults): Promise<void>;
}
