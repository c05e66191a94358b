import type { Batch, BatchOutcome, BatchProblem } from '@baobab/core/domain/batch.ts';
import { MESSAGE_BATCH, type StoredFile } from '@baobab/core/domain/file.ts';
import type { BatchRepository } from '@baobab/core/ports/batches.ts';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { FileRetention } from '../files/file-retention.ts';
import type { FilesService } from '../files/files.ts';
import { resultContent } from './result-content.ts';
import { BATCH_BLOBS } from './result-writer.ts';

export interface BatchEndDependencies {
  batches: BatchRepository;
  files: Pick<FilesService, 'store'>;
  retention: Pick<FileRetention, 'removeDiscarded'>;
  blobs: BlobStore;
  clock: Clock;
}

export interface BatchEnding {
  batch: Batch;
  ownerId: string;
  /** Undefined: it is gone. */
  input?: StoredFile | undefined;
  outcome: BatchOutcome;
  problems?: readonly BatchProblem[] | undefined;
}

/** Gives a batch its final status and its result files, and removes what only an active batch needs. */
export function createBatchEnd({ batches, files, retention, blobs, clock }: BatchEndDependencies) {
  async function resultFile({ batch, input }: BatchEnding, failed: boolean): Promise<StoredFile | undefined> {
    if ((failed ? batch.counts.failed : batch.counts.completed) === 0) return undefined;
    return files.store(batch.accountId, {
      filename: `${batch.id}_${failed ? 'error' : 'output'}.jsonl`,
      content: resultContent({ batchId: batch.id, failed, batches, blobs }),
      purpose: () => (input?.purpose === MESSAGE_BATCH ? MESSAGE_BATCH : 'batch'),
      lifetimeMs: () => batch.resultLifetimeMs ?? undefined,
    });
  }

  async function removeLeftovers(id: string): Promise<void> {
    for await (const { key } of blobs.list(`${BATCH_BLOBS}${id}/`)) await blobs.delete(key);
    // The input may have been deleted while it was read.
    await retention.removeDiscarded();
  }

  return {
    async withResults(ending: BatchEnding): Promise<void> {
      const { batch, ownerId, outcome, problems } = ending;
      const output = await resultFile(ending, false);
      const errors = await resultFile(ending, true);
      await batches.end({ id: batch.id, ownerId }, { outcome, output, errors, problems, now: clock.now() });
      await removeLeftovers(batch.id);
    },

    async withoutResults({ batch, ownerId, outcome, problems }: BatchEnding): Promise<void> {
      await batches.end({ id: batch.id, ownerId }, { outcome, problems, now: clock.now() });
      await removeLeftovers(batch.id);
    },
  };
}
