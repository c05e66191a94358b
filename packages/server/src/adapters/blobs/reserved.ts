import { StorageFullError } from '@baobab/core/errors/store-unavailable.ts';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import type { DiskSpace, DiskSpaceStatus } from '@baobab/core/ports/disk-space.ts';

/** Decorates a blob store: stores nothing while the disk has less free space than its reserve, also in the middle of a blob. */
export function createReservedBlobStore(blobs: BlobStore, space: DiskSpace): BlobStore {
  let known: DiskSpaceStatus | undefined;
  /** Written since the free space was read. */
  let writtenBytes = 0;

  async function requireSpace(bytes: number): Promise<void> {
    const status = await space.status();
    if (status !== known) [known, writtenBytes] = [status, 0];
    writtenBytes += bytes;
    const { isLow, freeBytes, reserveBytes } = status;
    if (isLow || (reserveBytes > 0 && freeBytes - writtenBytes < reserveBytes))
      throw new StorageFullError(`The disk has ${freeBytes} bytes free, less than its reserve of ${reserveBytes}.`);
  }

  async function* whileSpace(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of source) {
      await requireSpace(chunk.length);
      yield chunk;
    }
  }

  return {
    ...blobs,
    async put(key, source) {
      await requireSpace(0);
      try {
        return await blobs.put(key, whileSpace(source));
      } catch (cause) {
        if ((cause as NodeJS.ErrnoException).code !== 'ENOSPC') throw cause;
        throw new StorageFullError('The disk is full.', { cause });
      }
    },
  };
}
