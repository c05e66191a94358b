import type { BatchRepository } from '@baobab/core/ports/batches.ts';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import { BATCH_BLOBS } from './result-writer.ts';

export interface BatchLeftoversOptions {
  batches: Pick<BatchRepository, 'get'>;
  blobs: Pick<BlobStore, 'list' | 'delete'>;
  /** Only what was written before. Milliseconds since 1970. */
  before: number;
  signal: AbortSignal;
}

/** Removes results of batches that have ended: a crash right after the end leaves them, or a server that had lost its slices. */
export async function removeBatchLeftovers({ batches, blobs, before, signal }: BatchLeftoversOptions): Promise<number> {
  let removed = 0;
  let [known, ended]: [string | undefined, boolean] = [undefined, false];
  for await (const { key, modifiedAt } of blobs.list(BATCH_BLOBS)) {
    if (signal.aborted) break;
    const id = key.split('/')[1] ?? '';
    if (id !== known) {
      known = id;
      const batch = await batches.get(id);
      ended = batch === undefined || batch.endedAt !== null;
    }
    if (!ended || modifiedAt >= before) continue;
    await blobs.delete(key);
    removed += 1;
  }
  return removed;
}
