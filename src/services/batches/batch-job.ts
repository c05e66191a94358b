import type { Batch, BatchOutcome, BatchProblem } from '../../domain/batch.ts';
import { type BatchRequest, succeeded } from '../../domain/batch-line.ts';
import type { StoredFile } from '../../domain/file.ts';
import type { BatchRepository } from '../../ports/batches.ts';
import type { BlobStore } from '../../ports/blobs.ts';
import type { Clock } from '../../ports/clock.ts';
import type { FileRepository } from '../../ports/files.ts';
import type { Logger } from '../../ports/logger.ts';
import { createId } from '../../runtime/ids.ts';
import type { FileRetention } from '../files/file-retention.ts';
import type { FilesService } from '../files/files.ts';
import type { LineFormat } from './line-format.ts';
import { readLines } from './line-reader.ts';
import type { LineRun, LineSignals } from './line-run.ts';
import type { LineSlots } from './line-slots.ts';
import { resultContent } from './result-content.ts';
import { BATCH_BLOBS, createResultWriter, type ResultWriter } from './result-writer.ts';
import { validateInput } from './validation.ts';

export interface BatchJobDependencies {
  batches: BatchRepository;
  fileRecords: FileRepository;
  files: Pick<FilesService, 'open' | 'store'>;
  retention: Pick<FileRetention, 'removeDiscarded'>;
  blobs: BlobStore;
  slots: LineSlots;
  lineRun: LineRun;
  format: LineFormat;
  /** Lines of one batch that are at work or wait for their slot. */
  maxOutstanding: number;
  clock: Clock;
  logger: Pick<Logger, 'error'>;
}

export interface JobSignals extends LineSignals {
  /** The server stops: leave everything as it is, the next start goes on from there. */
  pause: AbortSignal;
}

const EXPIRED = {
  problem: {
    code: 'batch_expired',
    message: 'This request could not be executed before the completion window expired.',
  },
};
const PAGE = 5_000;
const MAX_OUTSTANDING_CHARACTERS = 16_777_216;

interface OpenLine {
  number: number;
  request: BatchRequest;
  /** In characters, as a measure of what it holds in memory. */
  size: number;
}

/** Works on one batch from wherever it stands in the store to its end, or until it is paused. */
export function createBatchJob(dependencies: BatchJobDependencies) {
  const { batches, fileRecords, files, retention, blobs, slots, lineRun, format, maxOutstanding, clock, logger } =
    dependencies;

  async function recordedLines(id: string): Promise<Set<number>> {
    const found = new Set<number>();
    for (let after = 0, more = true; more; ) {
      const page = await batches.recordedLines(id, { after, limit: PAGE });
      for (const line of page) found.add(line);
      after = page.at(-1) ?? after;
      more = page.length === PAGE;
    }
    return found;
  }

  /** The valid lines that have no answer yet. */
  async function* openLines(batch: Batch, input: StoredFile, recorded: Set<number>): AsyncGenerator<OpenLine> {
    for await (const line of readLines(await files.open(input))) {
      if (recorded.has(line.number)) continue;
      const { request } = format.parse(line, batch.endpoint);
      if (request !== undefined) yield { number: line.number, request, size: line.text?.length ?? 0 };
    }
  }

  async function runLines(batch: Batch, input: StoredFile, results: ResultWriter, signals: LineSignals): Promise<void> {
    const recorded = await recordedLines(batch.id);
    const outstanding = new Set<Promise<void>>();
    let characters = 0;
    const failure = new AbortController();
    const stop = AbortSignal.any([signals.stop, failure.signal]);

    async function runLine(line: OpenLine): Promise<void> {
      const slot = await slots.take({ accountId: batch.accountId, batchId: batch.id }, stop);
      const result = slot && (await lineRun.run(batch, line, slot, { stop, abort: signals.abort }));
      if (result === undefined) return;
      const bytes = format.write({
        id: createId('batch_req', clock.now()),
        customId: line.request.customId,
        result,
      });
      await results.add(line.number, !succeeded(result), bytes);
    }

    const isFull = () =>
      outstanding.size >= maxOutstanding || (characters > MAX_OUTSTANDING_CHARACTERS && outstanding.size > 1);
    try {
      for await (const line of openLines(batch, input, recorded)) {
        if (stop.aborted) break;
        const work = runLine(line)
          .catch((error) => failure.abort(error))
          .finally(() => {
            outstanding.delete(work);
            characters -= line.size;
          });
        outstanding.add(work);
        characters += line.size;
        while (isFull()) await Promise.race(outstanding);
      }
    } catch (error) {
      failure.abort(error);
    }
    // Whatever happened: a line that is still at work when the batch is taken up again would run twice at once.
    await Promise.all(outstanding);
    await results.flush();
    if (failure.signal.aborted) throw failure.signal.reason;
  }

  /** An input that cannot be read must not keep the batch from its end: the lines behind the fault are then in no result. */
  async function expireLines(batch: Batch, input: StoredFile, results: ResultWriter): Promise<void> {
    const lines = openLines(batch, input, await recordedLines(batch.id));
    const next = () =>
      lines.next().catch((error) => {
        logger.error({ err: error, batch: batch.id }, 'the input of an expired batch could not be read to its end');
        return { done: true, value: undefined } as const;
      });
    for (let line = await next(); !line.done; line = await next()) {
      const { number, request } = line.value;
      const id = createId('batch_req', clock.now());
      await results.add(number, true, format.write({ id, customId: request.customId, result: EXPIRED }));
    }
    await results.flush();
  }

  async function resultFile(batch: Batch, failed: boolean): Promise<StoredFile | undefined> {
    if ((failed ? batch.counts.failed : batch.counts.completed) === 0) return undefined;
    return files.store(batch.accountId, {
      filename: `${batch.id}_${failed ? 'error' : 'output'}.jsonl`,
      content: resultContent({ batchId: batch.id, failed, batches, blobs }),
      purpose: () => 'batch',
    });
  }

  async function removeResults(id: string): Promise<void> {
    for await (const { key } of blobs.list(`${BATCH_BLOBS}${id}/`)) await blobs.delete(key);
  }

  async function current(id: string): Promise<Batch> {
    const batch = await batches.get(id);
    if (batch === undefined) throw new Error(`the batch ${id} is gone`);
    return batch;
  }

  async function end(id: string, outcome: BatchOutcome, problems?: BatchProblem[]): Promise<void> {
    const batch = await current(id);
    const output = await resultFile(batch, false);
    const errors = await resultFile(batch, true);
    await batches.end(id, { outcome, output, errors, problems, now: clock.now() });
    await removeResults(id);
    // The input may have been deleted while it was read.
    await retention.removeDiscarded();
  }

  const isExpired = (batch: Batch) => clock.now() >= batch.expiresAt;

  return async function work(id: string, signals: JobSignals): Promise<void> {
    let batch = await current(id);
    const input = await fileRecords.attached(id);
    if (input === undefined || (await blobs.stat(input.blobKey)) === undefined) {
      const message = 'The input file is gone.';
      const problem = { code: 'input_file_gone', message, param: 'inputFileId', line: null };
      return end(id, 'failed', [problem]);
    }
    const results = createResultWriter({ batchId: id, blobs, batches, clock });

    if (batch.status === 'validating' && !isExpired(batch)) {
      await batches.restart(id);
      const content = () => files.open(input);
      const validated = await validateInput({ batch, input, content, results, format, signal: signals.stop });
      await results.flush();
      if (signals.pause.aborted) return;
      if (validated?.usable === false) {
        await batches.end(id, { outcome: 'failed', problems: validated.problems, now: clock.now() });
        await removeResults(id);
        await retention.removeDiscarded();
        return;
      }
      if (validated !== undefined) await batches.begin(id, { ...validated, now: clock.now() });
      batch = await current(id);
    }
    if (batch.status === 'in_progress') {
      if (!isExpired(batch)) await runLines(batch, input, results, signals);
      if (signals.pause.aborted) return;
      batch = await current(id);
      if (batch.status === 'in_progress' && isExpired(batch)) await expireLines(batch, input, results);
      await batches.finalize(id, clock.now());
      batch = await current(id);
    }
    if (signals.pause.aborted) return;
    if (batch.status === 'cancelling') await end(id, 'cancelled');
    else if (batch.status === 'finalizing')
      await end(id, (batch.finalizingAt ?? 0) >= batch.expiresAt ? 'expired' : 'completed');
    // Its time ran out before it was even read: there are no lines to tell of.
    else if (batch.status === 'validating' && isExpired(batch)) await end(id, 'expired');
  };
}
