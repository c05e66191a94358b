import type { Batch } from '../domain/batch.ts';
import type { BatchSlice, OwnedBatch, RecordedLine } from './batches.ts';

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

export interface SliceClaim {
  now: number;
  until: number;
  /** First lines of the slices that the owner works on, even when their leases have ended. */
  holding: readonly number[];
}

/** Results that are stored together. */
export interface SliceResults {
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
