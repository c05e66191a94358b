import type { BatchEndpoint, BatchProblem, LineResult, ParsedLine, RawLine } from '@baobab/core/domain/batch.ts';

export interface FinishedLine {
  id: string;
  customId: string | null;
  result: LineResult;
}

/** A line of an output or error file as it was read. */
export interface ReadResult {
  customId: string | null;
  /** The value of the body, or the reason why there is none. */
  result: { status: number; body: unknown } | { problem: Pick<BatchProblem, 'code' | 'message'> };
}

/** How requests and results are written in the files of a batch. */
export interface LineFormat {
  /** Checks everything but the body, which is validated when the line runs, like that of any request. */
  parse(line: RawLine, endpoint: BatchEndpoint): Promise<ParsedLine>;
  duplicateId(line: number, firstLine: number): BatchProblem;
  /** One line of the output or error file. */
  write(line: FinishedLine): Buffer;
  /** Reads what `write` has written. */
  read(bytes: Buffer): ReadResult;
}
