import type { Batch, BatchProblem } from '@baobab/core/domain/batch.ts';
import { MAX_BATCH_BYTES, MAX_BATCH_LINES } from '@baobab/core/domain/batch-line.ts';
import type { StoredFile } from '@baobab/core/domain/file.ts';
import type { BatchSlice } from '@baobab/core/ports/batches.ts';
import { createId } from '@baobab/core/runtime/ids.ts';
import type { LineFormat } from './line-format.ts';
import { type ReadLine, readLines } from './line-reader.ts';
import type { ResultWriter } from './result-writer.ts';

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

export interface Validated {
  usable: boolean;
  total: number;
  problems: BatchProblem[];
  slices: BatchSlice[];
}

const whole = (code: string, message: string): BatchProblem => ({ code, message, param: 'inputFileId', line: null });

export interface ValidationOptions {
  batch: Batch;
  input: StoredFile;
  content(): Promise<AsyncIterable<Uint8Array>>;
  results: ResultWriter;
  format: LineFormat;
  signal: AbortSignal;
}

/** Reads the whole input once. Records bad lines as failed and cuts the input into slices. */
export async function validateInput(options: ValidationOptions): Promise<Validated | undefined> {
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
