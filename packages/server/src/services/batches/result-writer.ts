import { Readable } from 'node:stream';
import type { RecordedLine } from '@baobab/core/ports/batches.ts';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import { createId } from '@baobab/core/runtime/ids.ts';

/** Prefix of the blobs with the results of active batches. The output file is made of them. */
export const BATCH_BLOBS = 'batches/';

const GROUP_BYTES = 4_194_304;
const GROUP_LINES = 256;
/** The counts that clients see may be this late. */
const GROUP_MS = 250;

export interface ResultLine {
  line: number;
  failed: boolean;
  expired?: boolean | undefined;
  /** First line of the slice that it is part of. A line that is found bad during validation is part of none. */
  slice?: number | undefined;
}

/** What is recorded together. */
export interface ResultGroup {
  lines: readonly RecordedLine[];
  slices: readonly number[];
  finished: readonly number[];
}

export interface ResultWriter {
  /** Resolves at once while the group has room, otherwise when it is stored. Rejects when the store fails. */
  add(line: ResultLine, bytes: Buffer): Promise<void>;
  /** All lines of this slice were added. It is recorded as finished after them. */
  finish(slice: number): void;
  /** Resolves when everything added before is durable and counted. */
  flush(): Promise<void>;
}

export interface ResultWriterDependencies {
  batchId: string;
  blobs: BlobStore;
  record(group: ResultGroup): Promise<void>;
  clock: Clock;
  /** Tries again where that helps. Once by default. */
  persistently?: (<T>(attempt: () => Promise<T>) => Promise<T>) | undefined;
}

/**
 * Stores results in groups: one blob, then one record of where each line is in it. A line counts only when both are durable. A crash
 * between the two leaves a blob that no record names, and lines that run again.
 */
export function createResultWriter(dependencies: ResultWriterDependencies): ResultWriter {
  const { batchId, blobs, record, clock, persistently = (attempt) => attempt() } = dependencies;
  let lines: Omit<RecordedLine, 'blobKey'>[] = [];
  let parts: Buffer[] = [];
  let bytes = 0;
  let slices = new Set<number>();
  let finished: number[] = [];
  let timer: NodeJS.Timeout | undefined;
  /** Groups are stored one after the other. When one fails, all later ones fail too. */
  let storing: Promise<void> = Promise.resolve();

  async function storeGroup(): Promise<void> {
    if (lines.length === 0 && finished.length === 0) return;
    const group = { lines, parts, slices: [...slices], finished };
    [lines, parts, bytes, slices, finished] = [[], [], 0, new Set(), []];
    const blobKey = `${BATCH_BLOBS}${batchId}/${createId('part', clock.now())}`;
    const recorded = {
      lines: group.lines.map((line) => ({ ...line, blobKey })),
      slices: group.slices,
      finished: group.finished,
    };
    if (group.lines.length > 0) await persistently(() => blobs.put(blobKey, Readable.from(group.parts)));
    await persistently(() => record(recorded));
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
    async add({ line, failed, expired, slice }, part) {
      lines.push({ line, failed, expired, offset: bytes, bytes: part.length });
      parts.push(part);
      bytes += part.length;
      if (slice !== undefined) slices.add(slice);
      if (bytes >= GROUP_BYTES || lines.length >= GROUP_LINES) await store();
      else timer ??= setTimeout(store, GROUP_MS);
    },
    finish(slice) {
      finished.push(slice);
      timer ??= setTimeout(store, GROUP_MS);
    },
    flush: store,
  };
}
