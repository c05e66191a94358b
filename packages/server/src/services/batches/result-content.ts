import { buffer } from 'node:stream/consumers';
import type { BatchRepository } from '@baobab/core/ports/batches.ts';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';

const PAGE = 500;
/** Lines end roughly in order, so the groups that each server stored around the same time are enough. */
const MAX_CACHED_BYTES = 33_554_432;
const CHUNK_BYTES = 262_144;

export interface ResultContentOptions {
  batchId: string;
  failed: boolean;
  batches: BatchRepository;
  blobs: BlobStore;
}

/** The content of the output or error file: recorded lines in the order of the input. */
export async function* resultContent(options: ResultContentOptions): AsyncGenerator<Uint8Array> {
  const { batchId, failed, batches, blobs } = options;
  /** The one that was used last is at the end. */
  const groups = new Map<string, Buffer>();
  let cachedBytes = 0;

  async function load(blobKey: string): Promise<Buffer> {
    const stream = await blobs.get(blobKey);
    if (stream === undefined) throw new Error(`the answers of batch ${batchId} in ${blobKey} are gone`);
    const group = await buffer(stream);
    cachedBytes += group.length;
    for (const [oldest, { length }] of groups) {
      if (cachedBytes <= MAX_CACHED_BYTES) break;
      groups.delete(oldest);
      cachedBytes -= length;
    }
    return group;
  }

  async function groupOf(blobKey: string): Promise<Buffer> {
    const group = groups.get(blobKey) ?? (await load(blobKey));
    groups.delete(blobKey);
    groups.set(blobKey, group);
    return group;
  }

  let chunk: Buffer[] = [];
  let bytes = 0;
  for (let after = 0, more = true; more; ) {
    const page = await batches.recorded(batchId, { failed, after, limit: PAGE });
    for (const line of page) {
      const group = await groupOf(line.blobKey);
      chunk.push(group.subarray(line.offset, line.offset + line.bytes));
      bytes += line.bytes;
      if (bytes < CHUNK_BYTES) continue;
      yield Buffer.concat(chunk);
      [chunk, bytes] = [[], 0];
    }
    after = page.at(-1)?.line ?? after;
    more = page.length === PAGE;
  }
  if (bytes > 0) yield Buffer.concat(chunk);
}
