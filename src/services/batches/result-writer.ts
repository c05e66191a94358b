import { Readable } from 'node:stream';
import type { BatchRepository, OwnedBatch, RecordedLine } from '../../ports/batches.ts';
import type { BlobStore } from '../../ports/blobs.ts';
import type { Clock } from '../../ports/clock.ts';
import { createId } from '../../runtime/ids.ts';

/** Prefix of the blobs with the results of active batches. The output file is made of them. */
export const BATCH_BLOBS = 'batches/';

const GROUP_BYTES = 4_194_304;
const GROUP_LINES = 256;
/** The counts that clients see may be this late. */
const GROUP_MS = 250;

export interface ResultWriter {
  /** Resolves at once while the group has room, otherwise when it is stored. Rejects when the store fails. */
  add(line: number, failed: boolean, bytes: Buffer): Promise<void>;
  /** Resolves when everything added before is durable and counted. */
  flush(): Promise<void>;
}

export interface ResultWriterDependencies {
  owned: OwnedBatch;
  blobs: BlobStore;
  batches: BatchRepository;
  clock: Clock;
}

/**
 * Stores results in groups: one blob, then one record of where each line is in it. A line counts only when both are durable. A crash
 * between the two leaves a blob that no record names, and lines that run again.
 */
export function createResultWriter({ owned, blobs, batches, clock }: ResultWriterDependencies): ResultWriter {
  let lines: Omit<RecordedLine, 'blobKey'>[] = [];
  let parts: Buffer[] = [];
  let bytes = 0;
  let timer: NodeJS.Timeout | undefined;
  /** Groups are stored one after the other. When one fails, all later ones fail too. */
  let storing: Promise<void> = Promise.resolve();

  async function storeGroup(): Promise<void> {
    if (lines.length === 0) return;
    const group = { lines, parts };
    [lines, parts, bytes] = [[], [], 0];
    const blobKey = `${BATCH_BLOBS}${owned.id}/${createId('part', clock.now())}`;
    await blobs.put(blobKey, Readable.from(group.parts));
    await batches.record(
      owned,
      group.lines.map((line) => ({ ...line, blobKey })),
    );
  }

  function store(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    storing = storing.then(storeGroup);
    // The next add or flush rejects: prevents an unhandled rejection until then.
    storing.catch(() => {});
    return storing;
  }

  return {
    async add(line, failed, part) {
      lines.push({ line, failed, offset: bytes, bytes: part.length });
      parts.push(part);
      bytes += part.length;
      if (bytes >= GROUP_BYTES || lines.length >= GROUP_LINES) await store();
      else timer ??= setTimeout(store, GROUP_MS);
    },
    flush: store,
  };
}
