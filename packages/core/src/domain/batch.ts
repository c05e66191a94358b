import { errors } from '../errors/errors.ts';
import { fieldText } from '../errors/fields.ts';
import type { Consumption } from './measures.ts';
import { BATCH_OPERATIONS } from './operations.ts';
import { HOUR_MS } from './time/durations.ts';

export type BatchEndpoint = keyof typeof BATCH_OPERATIONS;
export const BATCH_ENDPOINTS = Object.keys(BATCH_OPERATIONS) as BatchEndpoint[];

export const BATCH_STATUSES = [
  'validating',
  'failed',
  'in_progress',
  'finalizing',
  'completed',
  'expired',
  'cancelling',
  'cancelled',
] as const;
export type BatchStatus = (typeof BATCH_STATUSES)[number];

/** Statuses of batches that still need work. */
export const ACTIVE_STATUSES = [
  'validating',
  'in_progress',
  'finalizing',
  'cancelling',
] as const satisfies readonly BatchStatus[];

/** How a batch ended. */
export type BatchOutcome = Extract<BatchStatus, 'completed' | 'expired' | 'cancelled' | 'failed'>;

export const isActive = (status: BatchStatus): boolean => (ACTIVE_STATUSES as readonly string[]).includes(status);

/** An error in the input. `line` is null when it concerns the whole file. */
export interface BatchProblem {
  code: string;
  message: string;
  /** `inputFileId`, or the field of the line. */
  param: string | null;
  line: number | null;
}

/** What the lines of one model were billed. */
export interface ModelBill extends Consumption {
  /** The slug without a pin. */
  model: string;
  requests: number;
  costNanoUsd: number;
}

/** The same for every attempt, so that a line that ran before a crash is billed once. */
export const lineBillingId = (batchId: string, line: number): string => `${batchId}:${line}`;

export interface Batch {
  id: string;
  accountId: string;
  /** Its lines run with the rights and limits of this key. */
  keyId: string;
  endpoint: BatchEndpoint;
  inputFileId: string;
  completionWindow: string;
  metadata: Readonly<Record<string, string>> | null;
  status: BatchStatus;
  /** The first errors. The error file has one for every bad line. */
  problems: readonly BatchProblem[];
  outputFileId: string | null;
  errorFileId: string | null;
  /** How long the output and error files are kept. Null: as long as other files. */
  resultLifetimeMs: number | null;
  counts: { total: number; completed: number; failed: number };
  /** Failed lines that did not run before the batch expired. */
  expiredLines: number;
  /** From the ledger, once it has ended. */
  bills: readonly ModelBill[] | null;
  /** Milliseconds since 1970, like the times below. */
  createdAt: number;
  expiresAt: number;
  inProgressAt: number | null;
  finalizingAt: number | null;
  cancellingAt: number | null;
  /** When it reached its final status. */
  endedAt: number | null;
}

const MAX_WINDOW_HOURS = 168;

/** `24h`, or any whole number of hours or days up to a week. */
export function parseWindow(text: string): number {
  const parts = /^([1-9]\d{0,2})([hd])$/.exec(text);
  const hours = parts === null ? 0 : Number(parts[1]) * (parts[2] === 'd' ? 24 : 1);
  if (hours === 0 || hours > MAX_WINDOW_HOURS) {
    throw errors.invalidParameter(
      ['completionWindow'],
      fieldText`${['completionWindow']} must be '24h', or another whole number of hours or days up to 7d.`,
    );
  }
  return hours * HOUR_MS;
}

/** The total is set when the whole input has been read, and never for a batch without a valid line: it is at least what was counted. */
export const requestCounts = ({ counts: { total, completed, failed } }: Pick<Batch, 'counts'>): Batch['counts'] => ({
  total: Math.max(total, completed + failed),
  completed,
  failed,
});

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
  | {
      status: number;
      requestId: string;
      body: Uint8Array;
      /** How many inputs were cut, if any were to be. */
      truncated?: number | undefined;
    }
  | { problem: Pick<BatchProblem, 'code' | 'message'> };

export const succeeded = (result: LineResult): boolean => 'status' in result && result.status < 400;
