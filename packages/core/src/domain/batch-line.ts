import type { BatchProblem } from './batch.ts';

export const MAX_BATCH_LINES = 50_000;
export const MAX_BATCH_BYTES = 200_000_000;
/** More than the longest accepted list of inputs needs. */
export const MAX_LINE_BYTES = 8_388_608;

/** The code of the problem of lines that did not run before the batch expired. */
export const LINE_EXPIRED = 'batch_expired';

/** One line of the input file as it was read. */
export interface RawLine {
  /** From 1, blank lines counted. */
  number: number;
  /** Undefined when the line is too long or not UTF-8. */
  bytes: Buffer | undefined;
  problem?: string | undefined;
}

export interface BatchRequest {
  customId: string;
  body: unknown;
}

export type ParsedLine =
  | { request: BatchRequest; problem?: undefined }
  | { request?: undefined; customId: string | null; problem: BatchProblem };

/** The response to a line, or the reason why it got none. */
export type LineResult =
  | { status: number; requestId: string; body: Uint8Array }
  | { problem: Pick<BatchProblem, 'code' | 'message'> };

export const succeeded = (result: LineResult): boolean => 'status' in result && result.status < 400;
