import type { Batch, BatchEndpoint, BatchProblem, BatchStatus, ModelBill } from '@baobab/core/domain/batch.ts';
import type { BatchSlice, OwnedBatch, RecordedLine } from '@baobab/core/ports/batches.ts';
import { type CompiledQuery, type Kysely, sql } from 'kysely';
import { LEASE_OVER } from '../leases.ts';
import type { BatchesTable, BatchLinesTable, BatchSlicesTable, Tables } from '../tables.ts';

/** Until when the lease of a batch lasts while processes work on its slices: no process owns it then. */
export const SHARED = Number.MAX_SAFE_INTEGER;

export const toRow = (batch: Batch): BatchesTable => ({
  id: batch.id,
  account_id: batch.accountId,
  key_id: batch.keyId,
  endpoint: batch.endpoint,
  input_file_id: batch.inputFileId,
  completion_window: batch.completionWindow,
  metadata: batch.metadata === null ? null : JSON.stringify(batch.metadata),
  status: batch.status,
  problems: JSON.stringify(batch.problems),
  output_file_id: batch.outputFileId,
  error_file_id: batch.errorFileId,
  result_lifetime_ms: batch.resultLifetimeMs,
  total: batch.counts.total,
  completed: batch.counts.completed,
  failed: batch.counts.failed,
  expired: batch.expiredLines,
  bills: batch.bills === null ? null : JSON.stringify(batch.bills),
  created_at_ms: batch.createdAt,
  expires_at_ms: batch.expiresAt,
  in_progress_at_ms: batch.inProgressAt,
  finalizing_at_ms: batch.finalizingAt,
  cancelling_at_ms: batch.cancellingAt,
  ended_at_ms: batch.endedAt,
  owner_id: null,
  lease_until_ms: LEASE_OVER,
});

const time = (value: number | null): number | null => (value === null ? null : Number(value));

export const toBatch = (row: BatchesTable): Batch => ({
  id: row.id,
  accountId: row.account_id,
  keyId: row.key_id,
  endpoint: row.endpoint as BatchEndpoint,
  inputFileId: row.input_file_id,
  completionWindow: row.completion_window,
  metadata: row.metadata === null ? null : (JSON.parse(row.metadata) as Record<string, string>),
  status: row.status as BatchStatus,
  problems: JSON.parse(row.problems) as BatchProblem[],
  outputFileId: row.output_file_id,
  errorFileId: row.error_file_id,
  resultLifetimeMs: time(row.result_lifetime_ms),
  counts: { total: row.total, completed: row.completed, failed: row.failed },
  expiredLines: row.expired,
  bills: row.bills === null ? null : (JSON.parse(row.bills) as ModelBill[]),
  createdAt: Number(row.created_at_ms),
  expiresAt: Number(row.expires_at_ms),
  inProgressAt: time(row.in_progress_at_ms),
  finalizingAt: time(row.finalizing_at_ms),
  cancellingAt: time(row.cancelling_at_ms),
  endedAt: time(row.ended_at_ms),
});

const toLineRow = (batchId: string, line: RecordedLine): BatchLinesTable => ({
  batch_id: batchId,
  line: line.line,
  failed: line.failed ? 1 : 0,
  blob_key: line.blobKey,
  start: line.offset,
  bytes: line.bytes,
});

export const toLine = (row: BatchLinesTable): RecordedLine => ({
  line: row.line,
  failed: row.failed === 1,
  blobKey: row.blob_key,
  offset: row.start,
  bytes: row.bytes,
});

export const toSliceRow = (batchId: string, slice: BatchSlice): BatchSlicesTable => ({
  batch_id: batchId,
  first_line: slice.firstLine,
  last_line: slice.lastLine,
  start: slice.start,
  bytes: slice.bytes,
  owner_id: null,
  lease_until_ms: LEASE_OVER,
});

export const toSlice = (row: BatchSlicesTable): BatchSlice => ({
  firstLine: row.first_line,
  lastLine: row.last_line,
  start: row.start,
  bytes: row.bytes,
});

/** Adds lines and their counts to a batch. */
export function lineStatements(read: Kysely<Tables>) {
  let insertLine: CompiledQuery | undefined;
  return {
    /** Compiled once: the statement is the same for every line. */
    insert(batchId: string, line: RecordedLine) {
      const row = toLineRow(batchId, line);
      insertLine ??= read.insertInto('batch_lines').values(row).compile();
      const statement = { ...insertLine, parameters: Object.values(row) };
      return { compile: () => statement };
    },
    counts(lines: readonly RecordedLine[]) {
      const failed = lines.filter((line) => line.failed).length;
      return {
        completed: sql<number>`completed + ${lines.length - failed}`,
        failed: sql<number>`failed + ${failed}`,
        expired: sql<number>`expired + ${lines.filter((line) => line.expired).length}`,
      };
    },
  };
}

export function batchStatements(read: Kysely<Tables>) {
  const update = (id: string) => read.updateTable('batches').where('id', '=', id);
  return { update, owned: ({ id, ownerId }: OwnedBatch) => update(id).where('owner_id', '=', ownerId) };
}
