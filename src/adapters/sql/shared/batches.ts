import { type CompiledQuery, sql } from 'kysely';
import {
  ACTIVE_STATUSES,
  type Batch,
  type BatchEndpoint,
  type BatchProblem,
  type BatchStatus,
} from '../../../domain/batch.ts';
import type { BatchRepository, RecordedLine } from '../../../ports/batches.ts';
import type { SqlDatabase } from './database.ts';
import { toFileRow } from './files.ts';
import { storedAmounts } from './stored-amounts.ts';
import type { BatchesTable, BatchLinesTable } from './tables.ts';

const toRow = (batch: Batch): BatchesTable => ({
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
  total: batch.counts.total,
  completed: batch.counts.completed,
  failed: batch.counts.failed,
  created_at_ms: batch.createdAt,
  expires_at_ms: batch.expiresAt,
  in_progress_at_ms: batch.inProgressAt,
  finalizing_at_ms: batch.finalizingAt,
  cancelling_at_ms: batch.cancellingAt,
  ended_at_ms: batch.endedAt,
});

const time = (value: number | null): number | null => (value === null ? null : Number(value));

const toBatch = (row: BatchesTable): Batch => ({
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
  counts: { total: row.total, completed: row.completed, failed: row.failed },
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

const toLine = (row: BatchLinesTable): RecordedLine => ({
  line: row.line,
  failed: row.failed === 1,
  blobKey: row.blob_key,
  offset: row.start,
  bytes: row.bytes,
});

export function sqlBatches({ read, write, writeIf }: SqlDatabase): BatchRepository {
  const amounts = storedAmounts(read, 'files');
  let insertLine: CompiledQuery | undefined;
  /** Compiled once: the statement is the same for every line. */
  const insertLineOf = (row: BatchLinesTable) => {
    insertLine ??= read.insertInto('batch_lines').values(row).compile();
    const statement = { ...insertLine, parameters: Object.values(row) };
    return { compile: () => statement };
  };
  const update = (id: string) => read.updateTable('batches').where('id', '=', id);
  const deleteLines = (id: string) => read.deleteFrom('batch_lines').where('batch_id', '=', id);

  return {
    async create(batch) {
      const written = await writeIf([
        read
          .insertInto('file_attachments')
          .columns(['file_id', 'job_id', 'job_kind'])
          .expression((of) =>
            of
              .selectFrom('files')
              .select(['id', of.val(batch.id).as('job_id'), of.val('batch').as('job_kind')])
              .where('id', '=', batch.inputFileId)
              .where('discarded_at_ms', 'is', null),
          ),
        read.insertInto('batches').values(toRow(batch)),
      ]);
      return written !== undefined;
    },

    async get(id) {
      const row = await read.selectFrom('batches').selectAll().where('id', '=', id).executeTakeFirst();
      return row && toBatch(row);
    },

    async list({ accountId, limit, after }) {
      const rows = await read
        .selectFrom('batches')
        .selectAll()
        .$if(accountId !== undefined, (query) => query.where('account_id', '=', accountId ?? ''))
        .$if(after !== undefined, (query) => query.where('id', '<', after ?? ''))
        .orderBy('id', 'desc')
        .limit(limit)
        .execute();
      return rows.map(toBatch);
    },

    async listActive(limit) {
      const rows = await read
        .selectFrom('batches')
        .selectAll()
        .where('ended_at_ms', 'is', null)
        .orderBy('id')
        .limit(limit)
        .execute();
      return rows.map(toBatch);
    },

    async cancelled(ids) {
      if (ids.length === 0) return new Set();
      const rows = await read
        .selectFrom('batches')
        .select('id')
        .where('id', 'in', ids)
        .where('cancelling_at_ms', 'is not', null)
        .execute();
      return new Set(rows.map((row) => row.id));
    },

    async cancel(id, now) {
      await write([
        update(id)
          .set({ status: 'cancelling', cancelling_at_ms: now })
          .where('status', 'in', ['validating', 'in_progress']),
      ]);
    },

    async restart(id) {
      await write([deleteLines(id), update(id).set({ total: 0, completed: 0, failed: 0 })]);
    },

    async begin(id, { total, problems, now }) {
      await write([
        update(id).set({ total, problems: JSON.stringify(problems), in_progress_at_ms: now }),
        update(id).set({ status: 'in_progress' }).where('status', '=', 'validating'),
      ]);
    },

    async record(id, lines) {
      const failed = lines.filter((line) => line.failed).length;
      await write([
        ...lines.map((line) => insertLineOf(toLineRow(id, line))),
        update(id).set({
          completed: sql<number>`completed + ${lines.length - failed}`,
          failed: sql<number>`failed + ${failed}`,
        }),
      ]);
    },

    async recordedLines(id, { after, limit }) {
      const rows = await read
        .selectFrom('batch_lines')
        .select('line')
        .where('batch_id', '=', id)
        .where('line', '>', after)
        .orderBy('line')
        .limit(limit)
        .execute();
      return rows.map((row) => row.line);
    },

    async recorded(id, { failed, after, limit }) {
      const rows = await read
        .selectFrom('batch_lines')
        .selectAll()
        .where('batch_id', '=', id)
        .where('failed', '=', failed ? 1 : 0)
        .where('line', '>', after)
        .orderBy('line')
        .limit(limit)
        .execute();
      return rows.map(toLine);
    },

    async finalize(id, now) {
      await write([
        update(id).set({ finalizing_at_ms: now }).where('finalizing_at_ms', 'is', null),
        update(id).set({ status: 'finalizing' }).where('status', '=', 'in_progress'),
      ]);
    },

    async end(id, { outcome, problems, output, errors, now }) {
      const files = [output, errors].filter((file) => file !== undefined);
      await write([
        ...files.flatMap((file) => [
          read.insertInto('files').values(toFileRow(file)),
          // Results are kept also when they pass the quota: the next upload is refused.
          amounts.add(file.accountId, { items: 1, bytes: file.bytes }),
        ]),
        update(id)
          .where('status', 'in', ACTIVE_STATUSES)
          .set({
            status: outcome,
            ended_at_ms: now,
            output_file_id: output?.id ?? null,
            error_file_id: errors?.id ?? null,
            ...(problems === undefined ? {} : { problems: JSON.stringify(problems) }),
          }),
        read.deleteFrom('file_attachments').where('job_id', '=', id),
        deleteLines(id),
      ]);
    },
  };
}
