import { type Batch, type BatchProblem, MAX_BATCH_BYTES, MAX_BATCH_LINES } from '@baobab/core/domain/batch.ts';
import type { StoredFile } from '@baobab/core/domain/file.ts';
import type { BatchSlice } from '@baobab/core/ports/batches.ts';
import type { FileRepository } from '@baobab/core/ports/files.ts';
import { createId } from '@baobab/core/runtime/ids.ts';
import type { FilesService } from '../files/files.ts';
import { type BatchEndDependencies, createBatchEnd } from './batch-end.ts';
import type { LineFormat } from './line-format.ts';
import { type ReadLine, readLines } from './line-reader.ts';
import type { LineSignals } from './line-run.ts';
import { createResultWriter, type ResultWriter } from './result-writer.ts';
import { type BatchShare, createSliceRun, type SliceRunDependencies } from './slice-run.ts';

export interface BatchJobDependencies extends BatchEndDependencies, Omit<SliceRunDependencies, 'batches' | 'files'> {
  fileRecords: FileRepository;
  files: Pick<FilesService, 'open' | 'store'>;
}

/**
 * What interrupts a job. The runner fires them; no signal but `abort` touches a line that runs.
 *
 * | when | stop | pause | yield | abort | what the job does |
 * |---|---|---|---|---|---|
 * | the batch was cancelled, or its window has ended | x | | | | ends the batch with the results it has |
 * | another account is next | | | x | | ends a validation, gives its slices back, continues later |
 * | the server stops | x | x | | after the grace period | leaves the batch as it is, and gives it back |
 * | another process has taken over the batch or a slice | x | x | | x | leaves the batch as it is |
 */
export interface JobSignals extends LineSignals {
  /** Leave everything as it is. */
  pause: AbortSignal;
  /** Start no more lines, but finish a validation, which would begin again. */
  yield: AbortSignal;
}

const INPUT_GONE = {
  code: 'input_file_gone',
  message: 'The input file is gone.',
  param: 'inputFileId',
  line: null,
};

/** What the steps of one job share. */
interface Job {
  share: BatchShare;
  input: StoredFile;
  signals: JobSignals;
}

/** Does what this process can do for a batch now: validates it, works on its slices, writes its result files. */
export function createBatchJob(dependencies: BatchJobDependencies) {
  const { batches, batchSlices, fileRecords, files, blobs, format, identity, clock } = dependencies;
  const slices = createSliceRun(dependencies);
  const end = createBatchEnd(dependencies);

  const isExpired = (batch: Batch) => clock.now() >= batch.expiresAt;

  async function current(id: string): Promise<Batch> {
    const batch = await batches.get(id);
    if (batch === undefined) throw new Error(`the batch ${id} is gone`);
    return batch;
  }

  async function claimWhole(share: BatchShare): Promise<boolean> {
    const now = clock.now();
    share.whole ||= await batches.claimWhole(share.owned, { now, until: now + identity.leaseMs });
    return share.whole;
  }

  /** False: the batch has ended, because no line can run. */
  async function validate(batch: Batch, { share, input, signals }: Job): Promise<boolean> {
    const { owned } = share;
    await batches.restart(owned);
    const results = createResultWriter({
      batchId: owned.id,
      blobs,
      clock,
      record: ({ lines }) => batches.record(owned, lines),
    });
    const content = () => files.open(input);
    const validated = await validateInput({ batch, input, content, results, format, signal: signals.stop });
    await results.flush();
    if (validated === undefined || signals.pause.aborted) return true;
    // A renewal that arrives later finds nothing to renew.
    share.whole = !validated.usable;
    if (validated.usable) {
      await batches.begin(owned, { ...validated, now: clock.now() });
      return true;
    }
    const { problems } = validated;
    await end.withoutResults({ batch, ownerId: owned.ownerId, outcome: 'failed', problems });
    return false;
  }

  async function finish({ share, input }: Job): Promise<void> {
    const batch = await current(share.owned.id);
    const ending = { batch, input, ownerId: share.owned.ownerId };
    if (batch.status === 'cancelling') await end.withResults({ ...ending, outcome: 'cancelled' });
    else if (batch.status === 'finalizing') {
      const late = (batch.finalizingAt ?? 0) >= batch.expiresAt;
      await end.withResults({ ...ending, outcome: late ? 'expired' : 'completed' });
    }
    // It expired before it was validated, so it has no lines.
    else if (batch.status === 'validating' && isExpired(batch)) {
      await end.withResults({ ...ending, outcome: 'expired' });
    }
  }

  /** True when all slices are finished, or the batch was cancelled and no process works on it any more. */
  async function runSlices(batch: Batch, { share, input, signals }: Job): Promise<boolean> {
    const isOver = () => signals.pause.aborted || signals.yield.aborted;
    const job = { batch, input, share };
    const stop = AbortSignal.any([signals.stop, signals.yield]);
    if (!isExpired(batch)) await slices.run(job, { stop, abort: signals.abort });
    if (isOver()) return false;
    await giveBack(share);
    if (isExpired(batch)) await slices.expire(job, signals.pause);
    if (isOver()) return false;
    const { status } = await current(batch.id);
    return (status === 'finalizing' || status === 'cancelling') && claimWhole(share);
  }

  async function giveBack({ owned, running }: BatchShare): Promise<void> {
    running.clear();
    await batchSlices.release(owned);
  }

  return async function work(share: BatchShare, signals: JobSignals): Promise<void> {
    const { id, ownerId } = share.owned;
    let batch = await current(id);
    const input = await fileRecords.attached(id);
    // A batch in progress is owned only by a process that found its input gone, and that was then interrupted.
    const wasGone = share.whole && batch.status === 'in_progress';
    if (input === undefined || wasGone || (await blobs.stat(input.blobKey)) === undefined) {
      if (!(await claimWhole(share))) throw new Error(`the input of the batch ${id} is gone`);
      batch = await current(id);
      return end.withResults({ batch, ownerId, outcome: 'failed', problems: [INPUT_GONE] });
    }
    const job: Job = { share, input, signals };

    if (share.whole && batch.status === 'validating' && !isExpired(batch)) {
      if (!(await validate(batch, job)) || signals.pause.aborted) return;
    }
    if (!share.whole && !(await runSlices(batch, job))) return;
    if (!signals.pause.aborted) await finish(job);
  };
}

/** A small batch has small slices, so that several processes can share it. */
const MIN_LINES = 8;
/** A large batch has large slices, because each costs a claim and a read of the input. */
const MAX_SLICES = 256;

const merged = (parts: readonly BatchSlice[]): BatchSlice => {
  const [first, last] = [parts[0] as BatchSlice, parts.at(-1) as BatchSlice];
  return { ...first, lastLine: last.lastLine, bytes: last.start + last.bytes - first.start };
};

/** Cuts an input whose length is not known into at most 256 slices. Blank lines are part of the slice after them. */
export function createInputCutter() {
  const parts: BatchSlice[] = [];
  let lines = 0;
  return {
    /** Call it for each line of the input, in order. */
    add({ number, end }: Pick<ReadLine, 'number' | 'end'>): void {
      const current = parts.at(-1);
      if (current === undefined || lines === MIN_LINES) {
        const start = current === undefined ? 0 : current.start + current.bytes;
        parts.push({ firstLine: (current?.lastLine ?? 0) + 1, lastLine: number, start, bytes: end - start });
        lines = 1;
      } else {
        current.lastLine = number;
        current.bytes = end - current.start;
        lines += 1;
      }
    },
    slices(): BatchSlice[] {
      const each = Math.ceil(parts.length / MAX_SLICES);
      const slices: BatchSlice[] = [];
      for (let from = 0; from < parts.length; from += each) slices.push(merged(parts.slice(from, from + each)));
      return slices;
    },
  };
}

/** Shown with the batch. The error file has all of them. */
const MAX_SHOWN_PROBLEMS = 100;

interface Validated {
  usable: boolean;
  total: number;
  problems: BatchProblem[];
  slices: BatchSlice[];
}

const whole = (code: string, message: string): BatchProblem => ({ code, message, param: 'inputFileId', line: null });

interface ValidationOptions {
  batch: Batch;
  input: StoredFile;
  content(): Promise<AsyncIterable<Uint8Array>>;
  results: ResultWriter;
  format: LineFormat;
  signal: AbortSignal;
}

/** Reads the whole input once. Records bad lines as failed and cuts the input into slices. */
async function validateInput(options: ValidationOptions): Promise<Validated | undefined> {
  const { batch, input, content, results, format, signal } = options;
  const unusable = (problem: BatchProblem, more: readonly BatchProblem[] = []): Validated => ({
    usable: false,
    total: 0,
    problems: [problem, ...more],
    slices: [],
  });
  if (input.bytes > MAX_BATCH_BYTES) {
    const message = `The input has ${input.bytes} bytes; a batch takes at most ${MAX_BATCH_BYTES}.`;
    return unusable(whole('input_too_large', message));
  }
  const problems: BatchProblem[] = [];
  const seen = new Map<string, number>();
  const cutter = createInputCutter();
  let [total, bad] = [0, 0];

  for await (const line of readLines(await content())) {
    if (signal.aborted) return undefined;
    total += 1;
    cutter.add(line);
    if (total > MAX_BATCH_LINES) {
      return unusable(whole('too_many_lines', `The input has more than ${MAX_BATCH_LINES} lines.`));
    }
    const parsed = await format.parse(line, batch.endpoint);
    let { problem } = parsed;
    const customId = parsed.request === undefined ? parsed.customId : parsed.request.customId;
    if (parsed.request !== undefined) {
      const first = seen.get(parsed.request.customId);
      if (first === undefined) seen.set(parsed.request.customId, line.number);
      else problem = format.duplicateId(line.number, first);
    }
    if (problem === undefined) continue;
    bad += 1;
    if (problems.length < MAX_SHOWN_PROBLEMS) problems.push(problem);
    const message = `Line ${line.number}: ${problem.message}`;
    const result = { problem: { code: problem.code, message } };
    await results.add(
      { line: line.number, failed: true },
      format.write({ id: createId('batch_req'), customId, result }),
    );
  }
  if (total === 0) return unusable(whole('empty_file', 'The input has no lines.'));
  if (bad === total) return unusable(whole('no_valid_line', 'No line of the input is a valid request.'), problems);
  await results.flush();
  return { usable: true, total, problems, slices: cutter.slices() };
}
