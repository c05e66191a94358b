import { FILE_BLOBS } from '../../domain/file.ts';
import type { BlobStore } from '../../ports/blobs.ts';
import type { Clock } from '../../ports/clock.ts';
import type { FileRepository } from '../../ports/files.ts';

export interface FileRetention {
  /** Removes the bytes of discarded files that no job reads. What cannot be removed now stays for the next time. */
  removeDiscarded(): Promise<number>;
  /** Discards what is past its time, then removes the bytes of everything discarded that no job reads. */
  sweep(): Promise<{ expired: number; removed: number }>;
  /** Removes bytes from before this server's start that no record knows: a crash came between the two. */
  removeOrphans(): Promise<number>;
}

export interface FileRetentionDependencies {
  files: FileRepository;
  blobs: BlobStore;
  clock: Clock;
  /** When this server started: bytes written later may still get their record. */
  startedAt: number;
  signal: AbortSignal;
}

/** Records looked at in one step. */
const STEP = 200;

export function createFileRetention(dependencies: FileRetentionDependencies): FileRetention {
  const { files, blobs, clock, startedAt, signal } = dependencies;

  async function removeDiscarded(): Promise<number> {
    let removed = 0;
    while (!signal.aborted) {
      const discarded = await files.listDiscarded(STEP);
      // Bytes first: a crash in between leaves the record, and the next sweep tries again.
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
        if (modifiedAt >= startedAt) continue;
        step.push(key);
        if (step.length < STEP) continue;
        removed += await removeUnknown(step);
        step = [];
      }
      return removed + (await removeUnknown(step));
    },
  };
}
