import type { Batch } from '../../domain/batch.ts';
import { succeeded } from '../../domain/batch-line.ts';
import type { StoredFile } from '../../domain/file.ts';
import type { OwnedBatch } from '../../ports/batches.ts';
import type { FileRepository } from '../../ports/files.ts';
import type { Logger } from '../../ports/logger.ts';
import { createId } from '../../runtime/ids.ts';
import type { FilesService } from '../files/files.ts';
import { type BatchEndDependencies, createBatchEnd } from './batch-end.ts';
import type { LineFormat } from './line-format.ts';
import type { LineRun, LineSignals } from './line-run.ts';
import type { LineSlots } from './line-slots.ts';
import { createPendingLines, type PendingLine } from './pending-lines.ts';
import { createResultWriter, type ResultWriter } from './result-writer.ts';
import { validateInput } from './validation.ts';

export interface BatchJobDependencies extends BatchEndDependencies {
  fileRecords: FileRepository;
  files: Pick<FilesService, 'open' | 'store'>;
  slots: LineSlots;
  lineRun: LineRun;
  format: LineFormat;
  /** Lines of one batch that run or wait for a slot. */
  maxOutstanding: number;
  logger: Pick<Logger, 'error'>;
}

export interface JobSignals extends LineSignals {
  /** Leave everything as it is: the server stops, or another process has taken the batch over. */
  pause: AbortSignal;
  /** Start no more lines, but finish a validation, which would begin again. */
  yield: AbortSignal;
}

const EXPIRED = {
  problem: {
    code: 'batch_expired',
    message: 'This request could not be executed before the completion window expired.',
  },
};
const INPUT_GONE = {
  code: 'input_file_gone',
  message: 'The input file is gone.',
  param: 'inputFileId',
  line: null,
};
const MAX_OUTSTANDING_BYTES = 16_777_216;

/** What the steps of one job share. */
interface Job {
  owned: OwnedBatch;
  input: StoredFile;
  results: ResultWriter;
  signals: JobSignals;
}

/** Works on a claimed batch from the status it has in the store to its end, or until it is paused. */
export function createBatchJob(dependencies: BatchJobDependencies) {
  const { batches, fileRecords, files, blobs, slots, lineRun, format, maxOutstanding, clock, logger } = dependencies;
  const pendingLines = createPendingLines({ batches, files, format });
  const end = createBatchEnd(dependencies);

  const isExpired = (batch: Batch) => clock.now() >= batch.expiresAt;

  async function current(id: string): Promise<Batch> {
    const batch = await batches.get(id);
    if (batch === undefined) throw new Error(`the batch ${id} is gone`);
    return batch;
  }

  /** False: the batch has ended, because no line can run. */
  async function validate(batch: Batch, { owned, input, results, signals }: Job): Promise<boolean> {
    await batches.restart(owned);
    const content = () => files.open(input);
    const validated = await validateInput({ batch, input, content, results, format, signal: signals.stop });
    await results.flush();
    if (validated === undefined || signals.pause.aborted) return true;
    if (validated.usable) {
      await batches.begin(owned, { ...validated, now: clock.now() });
      return true;
    }
    const { problems } = validated;
    await end.withoutResults({ batch, ownerId: owned.ownerId, outcome: 'failed', problems });
    return false;
  }

  async function runLines(batch: Batch, { input, results, signals }: Job): Promise<void> {
    const outstanding = new Set<Promise<void>>();
    let outstandingBytes = 0;
    const failure = new AbortController();
    const stop = AbortSignal.any([signals.stop, signals.yield, failure.signal]);

    async function runLine(line: PendingLine): Promise<void> {
      const slot = await slots.take({ accountId: batch.accountId, batchId: batch.id }, stop);
      const result = slot && (await lineRun.run(batch, line, slot, { stop, abort: signals.abort }));
      if (result === undefined) return;
      const id = createId('batch_req', clock.now());
      const bytes = format.write({ id, customId: line.request.customId, result });
      await results.add(line.number, !succeeded(result), bytes);
    }

    const isFull = () =>
      outstanding.size >= maxOutstanding || (outstandingBytes > MAX_OUTSTANDING_BYTES && outstanding.size > 1);
    try {
      for await (const line of pendingLines(batch, input)) {
        if (stop.aborted) break;
        const work = runLine(line)
          .catch((error) => failure.abort(error))
          .finally(() => {
            outstanding.delete(work);
            outstandingBytes -= line.bytes;
          });
        outstanding.add(work);
        outstandingBytes += line.bytes;
        while (isFull()) await Promise.race(outstanding);
      }
    } catch (error) {
      failure.abort(error);
    }
    // Wait in any case: a line that still runs when the batch is continued would run twice at once.
    await Promise.all(outstanding);
    await results.flush();
    if (failure.signal.aborted) throw failure.signal.reason;
  }

  /** Records every line without a result as expired. If the input cannot be read, the batch ends without the rest. */
  async function expireLines(batch: Batch, { input, results }: Job): Promise<void> {
    const lines = pendingLines(batch, input);
    const next = () =>
      lines.next().catch((error) => {
        logger.error({ err: error, batch: batch.id }, 'failed to read the input of an expired batch, ending it anyway');
        return { done: true, value: undefined } as const;
      });
    for (let line = await next(); !line.done; line = await next()) {
      const { number, request } = line.value;
      const id = createId('batch_req', clock.now());
      await results.add(number, true, format.write({ id, customId: request.customId, result: EXPIRED }));
    }
    await results.flush();
  }

  async function finish(batch: Batch, ownerId: string): Promise<void> {
    if (batch.status === 'cancelling') await end.withResults({ batch, ownerId, outcome: 'cancelled' });
    else if (batch.status === 'finalizing') {
      const late = (batch.finalizingAt ?? 0) >= batch.expiresAt;
      await end.withResults({ batch, ownerId, outcome: late ? 'expired' : 'completed' });
    }
    // It expired before it was validated, so it has no lines.
    else if (batch.status === 'validating' && isExpired(batch)) {
      await end.withResults({ batch, ownerId, outcome: 'expired' });
    }
  }

  return async function work(owned: OwnedBatch, signals: JobSignals): Promise<void> {
    const { id, ownerId } = owned;
    let batch = await current(id);
    const input = await fileRecords.attached(id);
    if (input === undefined || (await blobs.stat(input.blobKey)) === undefined) {
      return end.withResults({ batch, ownerId, outcome: 'failed', problems: [INPUT_GONE] });
    }
    const job: Job = { owned, input, signals, results: createResultWriter({ owned, blobs, batches, clock }) };

    if (batch.status === 'validating' && !isExpired(batch)) {
      if (!(await validate(batch, job)) || signals.pause.aborted) return;
      batch = await current(id);
    }
    if (batch.status === 'in_progress') {
      if (!isExpired(batch)) await runLines(batch, job);
      if (signals.pause.aborted || signals.yield.aborted) return;
      batch = await current(id);
      if (batch.status === 'in_progress' && isExpired(batch)) await expireLines(batch, job);
      await batches.finalize(owned, clock.now());
      batch = await current(id);
    }
    if (!signals.pause.aborted) await finish(batch, ownerId);
  };
}
