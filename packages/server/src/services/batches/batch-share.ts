import type { OwnedBatch } from '@baobab/core/ports/batches.ts';

/** What this process holds of a batch: the whole batch, or some of its slices. */
export interface BatchShare {
  owned: OwnedBatch;
  /** Only this process works on the batch: it validates it or writes its result files. */
  whole: boolean;
  /** First lines of the slices whose lines run or wait. */
  running: Set<number>;
  /** First lines of the slices that have all their results, until these are recorded. */
  storing: Set<number>;
}

export const createBatchShare = (owned: OwnedBatch, whole: boolean): BatchShare => ({
  owned,
  whole,
  running: new Set(),
  storing: new Set(),
});
