import { type Batch, LINE_EXPIRED } from '@baobab/core/domain/batch.ts';
import type { StoredFile } from '@baobab/core/domain/file.ts';
import { createTimeSlice } from '@baobab/core/runtime/time-slices.ts';
import type { LineFormat, ReadResult } from '../batches/line-format.ts';
import { readLines } from '../batches/line-reader.ts';
import type { FilesService } from '../files/files.ts';

/** How one request of a batch has ended. */
export type RequestEnd = { customId: string | null } & (
  | { kind: 'answered'; status: number; body: unknown }
  | { kind: 'refused'; message: string }
  | { kind: 'cancelled' }
  | { kind: 'expired' }
);

/** The files with the results. The input is needed for requests without one. */
export interface ResultFiles {
  output: StoredFile | undefined;
  errors: StoredFile | undefined;
  input: StoredFile | undefined;
}

export interface ResultReaderDependencies {
  files: Pick<FilesService, 'open'>;
  format: Pick<LineFormat, 'parse' | 'read'>;
}

function toEnd({ customId, result }: ReadResult): RequestEnd {
  if ('status' in result) return { customId, kind: 'answered', ...result };
  const { code, message } = result.problem;
  return code === LINE_EXPIRED ? { customId, kind: 'expired' } : { customId, kind: 'refused', message };
}

/** How requests without a line in the output or error file ended. */
function endWithoutResult({ status, problems }: Batch, customId: string | null): RequestEnd {
  if (status === 'cancelled') return { customId, kind: 'cancelled' };
  if (status === 'expired') return { customId, kind: 'expired' };
  return { customId, kind: 'refused', message: problems[0]?.message ?? 'The batch failed.' };
}

/** Reads the results of a batch that has ended: those in its files first, then the requests that were not run. */
export function createResultReader({ files, format }: ResultReaderDependencies) {
  return async function* results(batch: Batch, { output, errors, input }: ResultFiles): AsyncGenerator<RequestEnd> {
    const slice = createTimeSlice();
    const seen = new Set<string | null>();
    for (const file of [output, errors]) {
      if (file === undefined) continue;
      for await (const { bytes } of readLines(await files.open(file))) {
        if (bytes === undefined) continue;
        const end = toEnd(format.read(bytes));
        if (input !== undefined) seen.add(end.customId);
        yield end;
        if (slice.isOver()) await slice.next();
      }
    }
    if (input === undefined) return;
    for await (const line of readLines(await files.open(input))) {
      const parsed = await format.parse(line, batch.endpoint);
      const customId = parsed.request === undefined ? parsed.customId : parsed.request.customId;
      if (!seen.has(customId)) yield endWithoutResult(batch, customId);
      if (slice.isOver()) await slice.next();
    }
  };
}
