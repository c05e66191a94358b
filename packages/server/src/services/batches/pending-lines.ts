import type { Batch } from '@baobab/core/domain/batch.ts';
import type { BatchRequest } from '@baobab/core/domain/batch-line.ts';
import type { StoredFile } from '@baobab/core/domain/file.ts';
import type { BatchRepository, BatchSlice } from '@baobab/core/ports/batches.ts';
import type { FilesService } from '../files/files.ts';
import type { LineFormat } from './line-format.ts';
import { readLines } from './line-reader.ts';

export interface PendingLine {
  number: number;
  request: BatchRequest;
  /** Length of its text, as a measure of its memory. */
  bytes: number;
}

export interface PendingLinesDependencies {
  batches: Pick<BatchRepository, 'recordedLines'>;
  files: Pick<FilesService, 'open'>;
  format: Pick<LineFormat, 'parse'>;
}

const PAGE = 5_000;

/** Reads the valid lines of a slice that have no result yet, in order. The slice must be claimed, so that no other process adds results. */
export function createPendingLines({ batches, files, format }: PendingLinesDependencies) {
  async function recordedLines(id: string, { firstLine, lastLine: last }: BatchSlice): Promise<Set<number>> {
    const found = new Set<number>();
    for (let after = firstLine - 1, more = true; more; ) {
      const page = await batches.recordedLines(id, { after, last, limit: PAGE });
      for (const line of page) found.add(line);
      after = page.at(-1) ?? after;
      more = page.length === PAGE;
    }
    return found;
  }

  return async function* pendingLines(batch: Batch, input: StoredFile, slice: BatchSlice): AsyncGenerator<PendingLine> {
    const recorded = await recordedLines(batch.id, slice);
    const range = { start: slice.start, end: slice.start + slice.bytes - 1 };
    for await (const line of readLines(await files.open(input, range), slice.firstLine)) {
      if (recorded.has(line.number)) continue;
      const { request } = await format.parse(line, batch.endpoint);
      if (request !== undefined) yield { number: line.number, request, bytes: line.bytes?.length ?? 0 };
    }
  };
}
