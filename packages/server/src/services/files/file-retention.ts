import { FILE_BLOBS } from '@baobab/core/domain/file.ts';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { FileRepository } from '@baobab/core/ports/files.ts';

export interface FileRetention {
  /** Removes the content of discarded files that no job reads. */
  removeDiscarded(): Promise<number>;
  /** Discards expired files, then calls `removeDiscarded`. */
  sweep(): Promise<{ expired: number; removed: number }>;
  /** Removes content without a record, left by a crash. */
  removeOrphans(): Promise<number>;
}

export interface FileRetentionDependencies {
  files: FileRepository;
  blobs: BlobStore;
  clock: Clock;
  /** Content written later may still get its record. Milliseconds since 1970. */
  orphansBefore: number;
  signal: AbortSignal;
}

/** Records in one step. */
const STEP = 200;

export function createFileRetention(dependencies: FileRetentionDependencies): FileRetention {
  const { files, blobs, clock, orphansBefore, signal } = dependencies;

  async function removeDiscarded(): Promise<number> {
    let removed = 0;
    while (!signal.aborted) {
      const discarded = await files.listDiscarded(STEP);
      // Content first: after a crash in between, the record is still there for the next sweep.
      for (const { blobKey } of discarded) await blobs.delete(blobKey);
      await files.forget(discarded.map(({ id }) => id));
      removed += discarded.length;
      if (discarded.length < STEP) break;
    }
    return removed;
  }

  async function removeUnknown(blobKeys: readonly string[]): Promise<number> {
    const known = await files.knownBlobs(blobKeys);
    const orphans = blobKeys.filter((key) => !known.has(key));
    for (const key of orphans) await blobs.delete(key);
    return orphans.length;
  }

  return {
    removeDiscarded,

    async sweep() {
      await files.detachExpired(clock.now());
      let expired = 0;
      for (let found = STEP; found === STEP && !signal.aborted; expired += found) {
        found = await files.discardExpired(clock.now(), STEP);
      }
      return { expired, removed: await removeDiscarded() };
    },

    async removeOrphans() {
      let removed = 0;
      let step: string[] = [];
      for await (const { key, modifiedAt } of blobs.list(FILE_BLOBS)) {
        if (signal.aborted) return removed;
        if (modifiedAt >= orphansBefore) continue;
        step.push(key);
        if (step.length < STEP) continue;
        removed += await removeUnknown(step);
        step = [];
      }
      return removed + (await removeUnknown(step));
    },
  };
}
