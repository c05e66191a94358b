import { type Batch, type BatchRequest, LINE_EXPIRED, succeeded } from '@baobab/core/domain/batch.ts';
import type { StoredFile } from '@baobab/core/domain/file.ts';
import type { BatchRepository, BatchSlice, BatchSliceRepository, OwnedBatch } from '@baobab/core/ports/batches.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import { createId } from '@baobab/core/runtime/ids.ts';
import { createRepeatedFailure } from '@baobab/core/runtime/repeated-failure.ts';
import type { FilesService } from '../files/files.ts';
import { createOutagePatience } from '../processes/outage-patience.ts';
import type { LineFormat } from './line-format.ts';
import { readLines } from './line-reader.ts';
import type { LineRun, LineSignals } from './line-run.ts';
import { createResultWriter, type ResultWriter, type ResultWriterDependencies } from './result-writer.ts';

interface PendingLine {
  number: number;
  request: BatchRequest;
  /** Length of its text, as a measure of its memory. */
  bytes: number;
}

const PAGE = 5_000;

/** Reads the valid lines of a slice that have no result yet, in order. The slice must be claimed, so that no other process adds results. */
function createPendingLines({ batches, files, format }: Pick<SliceRunDependencies, 'batches' | 'files' | 'format'>) {
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

export interface SliceRunDependencies extends Pick<ResultWriterDependencies, 'blobs' | 'clock'> {
  batches: Pick<BatchRepository, 'recordedLines'>;
  files: Pick<FilesService, 'open'>;
  batchSlices: BatchSliceRepository;
  lineRun: LineRun;
  /** Lines that run at a time at most, in each lane. */
  concurrency: number;
  format: LineFormat;
  identity: Pick<ProcessIdentity, 'leaseMs'>;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'error'>;
}

/** What this process holds of a batch: the whole batch, or some of its slices. */
export interface BatchShare {
  owned: OwnedBatch;
  /** Only this process works on the batch: it validates it or writes its result files. */
  whole: boolean;
  /** First lines of the slices whose lines run or wait. */
  running: Set<number>;
  /** First lines of the slices that have all their results, until these are recorded. */
  storing: Set<number>;
}

export const createBatchShare = (owned: OwnedBatch, whole: boolean): BatchShare => ({
  owned,
  whole,
  running: new Set(),
  storing: new Set(),
});

/** A batch in progress and what this process holds of it. */
export interface SliceJob {
  batch: Batch;
  input: StoredFile;
  share: BatchShare;
}

export interface SliceRun {
  /** Claims slices and runs their lines, until there are none or it is stopped. What it has not finished stays claimed. */
  run(job: SliceJob, signals: LineSignals): Promise<void>;
  /** Claims slices and records their lines as expired. If the input cannot be read, the rest of the slice gets no result. */
  expire(job: SliceJob, stop: AbortSignal): Promise<void>;
}

const EXPIRED = {
  problem: {
    code: LINE_EXPIRED,
    message: 'This request could not be executed before the completion window expired.',
  },
};
const MAX_WINDOW_BYTES = 16_777_216;
/** More lines than slots: the batch with the fewest slots must have a line waiting when one becomes free. */
const LINES_PER_SLOT = 2;
/** Shares of a model that a batch with several may fill. */
const MAX_SHARES = 16;

/** As the client calls it: shares are apart even if two names mean one model. */
function modelOf({ body }: BatchRequest): string {
  const model = (body as { model?: unknown } | null)?.model;
  return typeof model === 'string' ? model : '';
}

/** Works on the slices of a batch. Other processes may work on the same batch at the same time. */
export function createSliceRun(dependencies: SliceRunDependencies): SliceRun {
  const { batchSlices, lineRun, concurrency, format, blobs, identity, clock, logger } = dependencies;
  const pendingLines = createPendingLines(dependencies);
  const text = 'failed to use the store for a batch, trying again until it is back';
  const patience = (batch: string, stop: AbortSignal) =>
    createOutagePatience({ stop, failure: createRepeatedFailure({ logger, clock, text, facts: { batch } }) });

  async function claim({ owned, running, storing }: BatchShare): Promise<BatchSlice | undefined> {
    const now = clock.now();
    const holding = [...running, ...storing];
    const slice = await batchSlices.claim(owned, { now, until: now + identity.leaseMs, holding });
    if (slice !== undefined) running.add(slice.firstLine);
    return slice;
  }

  /** Results of lines that have run wait until the store is back: otherwise they would run again. */
  const writerOf = ({ owned, storing }: BatchShare, stop: AbortSignal): ResultWriter =>
    createResultWriter({
      batchId: owned.id,
      blobs,
      clock,
      persistently: patience(owned.id, stop),
      async record(group) {
        await batchSlices.record(owned, { ...group, now: clock.now() });
        for (const slice of group.finished) storing.delete(slice);
      },
    });

  function finish({ running, storing }: BatchShare, { firstLine }: BatchSlice, results: ResultWriter): void {
    running.delete(firstLine);
    storing.add(firstLine);
    results.finish(firstLine);
  }

  async function run({ batch, input, share }: SliceJob, signals: LineSignals): Promise<void> {
    const accountBatch = await lineRun.withAccount(batch);
    const results = writerOf(share, signals.stop);
    const perModel = LINES_PER_SLOT * concurrency;
    const window = new LineWindow({ perModel, maxLines: MAX_SHARES * perModel, maxBytes: MAX_WINDOW_BYTES });
    const failure = new AbortController();
    const stop = AbortSignal.any([signals.stop, failure.signal]);
    const claimPersistently = patience(batch.id, stop);

    /** False: it was stopped and has no result. */
    async function runLine(line: PendingLine, { firstLine }: BatchSlice): Promise<boolean> {
      const result = await lineRun.run(accountBatch, line, { stop, abort: signals.abort });
      if (result === undefined) return false;
      const id = createId('batch_req', clock.now());
      const bytes = format.write({ id, customId: line.request.customId, result });
      await results.add({ line: line.number, failed: !succeeded(result), slice: firstLine }, bytes);
      return true;
    }

    /** Resolves when all lines of the slice are in the window. */
    async function startLines(slice: BatchSlice): Promise<void> {
      let unfinished = 1;
      const lineEnded = (hasResult: boolean) => {
        if (hasResult) unfinished -= 1;
        if (unfinished === 0) finish(share, slice, results);
      };
      for await (const line of pendingLines(batch, input, slice)) {
        if (stop.aborted) return;
        unfinished += 1;
        window.add({ model: modelOf(line.request), bytes: line.bytes }, () =>
          runLine(line, slice)
            .then(lineEnded)
            .catch((error) => failure.abort(error)),
        );
        await window.room();
      }
      lineEnded(true);
    }

    try {
      while (!stop.aborted) {
        const slice = await claimPersistently(() => claim(share));
        if (slice === undefined) break;
        await startLines(slice);
      }
    } catch (error) {
      failure.abort(error);
    }
    // Always wait: a line that still runs when its slice is claimed again would run twice at once.
    await window.ended();
    await results.flush();
    if (failure.signal.aborted) throw failure.signal.reason;
  }

  async function expire({ batch, input, share }: SliceJob, stop: AbortSignal): Promise<void> {
    const results = writerOf(share, stop);
    for (let slice = await claim(share); slice !== undefined; slice = await claim(share)) {
      const lines = pendingLines(batch, input, slice);
      const next = () =>
        lines.next().catch((error) => {
          logger.error(
            { err: error, batch: batch.id },
            'failed to read the input of an expired batch, ending it anyway',
          );
          return { done: true, value: undefined } as const;
        });
      for (let line = await next(); !line.done; line = await next()) {
        if (stop.aborted) return;
        const { number, request } = line.value;
        const id = createId('batch_req', clock.now());
        const bytes = format.write({ id, customId: request.customId, result: EXPIRED });
        await results.add({ line: number, failed: true, expired: true, slice: slice.firstLine }, bytes);
      }
      finish(share, slice, results);
    }
    await results.flush();
  }

  return { run, expire };
}

interface LineWindowOptions {
  /** Lines of one model that run at a time. */
  perModel: number;
  maxLines: number;
  maxBytes: number;
}

interface ModelLines {
  running: number;
  waiting: (() => void)[];
}

/**
 * The lines of a batch that have been read and have not ended. Each model has a share of its own, so that the lines of a fast one are not
 * behind those of a slow one. A batch with one model is not read beyond that share: other processes can have its next slices.
 */
export class LineWindow {
  readonly #options: LineWindowOptions;
  readonly #models = new Map<string, ModelLines>();
  #hasSeveralModels = false;
  #lines = 0;
  #bytes = 0;
  #lineEnded = Promise.withResolvers<void>();

  constructor(options: LineWindowOptions) {
    this.#options = options;
  }

  /** Runs the line as soon as its model's share allows it. `run` must not reject. */
  add({ model, bytes }: { model: string; bytes: number }, run: () => Promise<void>): void {
    const lines = this.#models.get(model) ?? { running: 0, waiting: [] };
    this.#models.set(model, lines);
    this.#hasSeveralModels ||= this.#models.size > 1;
    this.#lines += 1;
    this.#bytes += bytes;
    const begin = async () => {
      lines.running += 1;
      await run();
      lines.running -= 1;
      this.#lines -= 1;
      this.#bytes -= bytes;
      lines.waiting.shift()?.();
      if (lines.running === 0) this.#models.delete(model);
      this.#lineEnded.resolve();
    };
    if (lines.running < this.#options.perModel) void begin();
    else lines.waiting.push(begin);
  }

  /** Resolves when another line may be added. */
  async room(): Promise<void> {
    const isFull = () => {
      const { perModel, maxLines, maxBytes } = this.#options;
      const most = this.#hasSeveralModels ? maxLines : perModel;
      return this.#lines >= most || (this.#bytes > maxBytes && this.#lines > 1);
    };
    while (isFull()) await this.#nextEnd();
  }

  /** Resolves when all lines have ended. */
  async ended(): Promise<void> {
    while (this.#lines > 0) await this.#nextEnd();
  }

  #nextEnd(): Promise<void> {
    this.#lineEnded = Promise.withResolvers();
    return this.#lineEnded.promise;
  }
}
