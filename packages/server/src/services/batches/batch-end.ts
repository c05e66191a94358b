import { buffer } from 'node:stream/consumers';
import type { Batch, BatchOutcome, BatchProblem } from '@baobab/core/domain/batch.ts';
import { MESSAGE_BATCH, type StoredFile } from '@baobab/core/domain/file.ts';
import type { BatchRepository } from '@baobab/core/ports/batches.ts';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { UsageReader } from '@baobab/core/ports/usage.ts';
import type { FileRetention } from '../files/file-retention.ts';
import type { FilesService } from '../files/files.ts';
import { BATCH_BLOBS } from './result-writer.ts';

interface BatchLeftoversOptions {
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

const PAGE = 500;
/** Lines end roughly in order, so the groups that each server stored around the same time are enough. */
const MAX_CACHED_BYTES = 33_554_432;
const CHUNK_BYTES = 262_144;

/** The content of the output or error file: recorded lines in the order of the input. */
async function* resultContent(
  { batches, blobs }: Pick<BatchEndDependencies, 'batches' | 'blobs'>,
  batchId: string,
  failed: boolean,
): AsyncGenerator<Uint8Array> {
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

export interface BatchEndDependencies {
  batches: BatchRepository;
  files: Pick<FilesService, 'store'>;
  retention: Pick<FileRetention, 'removeDiscarded'>;
  blobs: BlobStore;
  usage: Pick<UsageReader, 'batchBills'>;
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
export function createBatchEnd({ batches, files, retention, blobs, usage, clock }: BatchEndDependencies) {
  async function resultFile({ batch, input }: BatchEnding, failed: boolean): Promise<StoredFile | undefined> {
    if ((failed ? batch.counts.failed : batch.counts.completed) === 0) return undefined;
    return files.store(batch.accountId, {
      filename: `${batch.id}_${failed ? 'error' : 'output'}.jsonl`,
      content: resultContent({ batches, blobs }, batch.id, failed),
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
      const bills = await usage.batchBills(batch.id);
      const output = await resultFile(ending, false);
      const errors = await resultFile(ending, true);
      await batches.end({ id: batch.id, ownerId }, { outcome, output, errors, problems, bills, now: clock.now() });
      await removeLeftovers(batch.id);
    },

    async withoutResults({ batch, ownerId, outcome, problems }: BatchEnding): Promise<void> {
      await batches.end({ id: batch.id, ownerId }, { outcome, problems, bills: [], now: clock.now() });
      await removeLeftovers(batch.id);
    },
  };
}
