import { type Compilable, type CompiledQuery, sql } from 'kysely';
import {
  ACTIVE_STATUSES,
  type Batch,
  type BatchEndpoint,
  type BatchProblem,
  type BatchStatus,
} from '../../../domain/batch.ts';
import type { BatchRepository, OwnedBatch, RecordedLine } from '../../../ports/batches.ts';
import { LeaseLostError } from '../../../ports/store-errors.ts';
import type { SqlDatabase } from './database.ts';
import { toFileRow } from './files.ts';
import { storedAmounts } from './stored-amounts.ts';
import type { BatchesTable, BatchLinesTable } from './tables.ts';

/** A time before every other, so that the batch can be claimed at once. */
const LEASE_OVER = 0;
const ONE_BATCH = { items: 1, bytes: 0 };

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
  owner_id: null,
  lease_until_ms: LEASE_OVER,
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
  const storedFiles = storedAmounts(read, 'files');
  const activeBatches = storedAmounts(read, 'batches');
  let insertLine: CompiledQuery | undefined;
  /** Compiled once: the statement is the same for every line. */
  const insertLineOf = (row: BatchLinesTable) => {
    insertLine ??= read.insertInto('batch_lines').values(row).compile();
    const statement = { ...insertLine, parameters: Object.values(row) };
    return { compile: () => statement };
  };
  const update = (id: string) => read.updateTable('batches').where('id', '=', id);
  const owned = ({ id, ownerId }: OwnedBatch) => update(id).where('owner_id', '=', ownerId);
  /** The first statement changes the batch only if it is owned. */
  const writeOwned = async ({ id, ownerId }: OwnedBatch, statements: readonly Compilable[]): Promise<void> => {
    if ((await writeIf(statements)) === undefined) throw new LeaseLostError(`${ownerId} does not own the batch ${id}`);
  };
  const deleteLines = (id: string) => read.deleteFrom('batch_lines').where('batch_id', '=', id);

  return {
    async create(batch, maxActive) {
      const quota = { items: maxActive, bytes: 0 };
      const statements = [
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
        activeBatches.add(batch.accountId, ONE_BATCH, quota),
        read.insertInto('batches').values(toRow(batch)),
      ];
      if ((await writeIf(statements, { guards: 2 })) !== undefined) return 'created';
      const { items } = await activeBatches.get(batch.accountId);
      return maxActive > 0 && items >= maxActive ? 'too many active' : 'input gone';
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

    async claim({ ownerId, now, leaseUntil, limit, perAccount, holding }) {
      // A list may not be empty in SQL.
      const held = holding.length === 0 ? [''] : holding;
      const [{ rows }] = await write([
        read
          .updateTable('batches')
          .set({ owner_id: ownerId, lease_until_ms: leaseUntil })
          .where('lease_until_ms', '<=', now)
          .where('id', 'in', (of) =>
            of
              .selectFrom((from) =>
                from
                  .selectFrom('batches as waiting')
                  .where('ended_at_ms', 'is', null)
                  .where('lease_until_ms', '<=', now)
                  .where('id', 'not in', held)
                  .select((select) => [
                    'id',
                    sql<number>`row_number() over (partition by account_id order by id) + ${select
                      .selectFrom('batches as working')
                      .whereRef('working.account_id', '=', 'waiting.account_id')
                      .where('working.id', 'in', held)
                      .select(({ fn }) => fn.countAll<number>().as('batches'))}`.as('place'),
                  ])
                  .as('ranked'),
              )
              .select('id')
              .where('place', '<=', perAccount)
              .orderBy('place')
              .orderBy('id')
              .limit(limit),
          )
          .returningAll(),
      ]);
      return rows.map(toBatch);
    },

    async renew(ownerId, ids, leaseUntil) {
      if (ids.length === 0) return new Set();
      const [{ rows }] = await write([
        read
          .updateTable('batches')
          .set({ lease_until_ms: leaseUntil })
          .where('id', 'in', ids)
          .where('owner_id', '=', ownerId)
          .returning('id'),
      ]);
      return new Set(rows.map((row) => row.id));
    },

    async release(batch, claimableAt) {
      await write([owned(batch).set({ owner_id: null, lease_until_ms: claimableAt })]);
    },

    async releaseOthers(ownerId) {
      await write([
        read
          .updateTable('batches')
          .set({ owner_id: null, lease_until_ms: LEASE_OVER })
          .where('ended_at_ms', 'is', null)
          .where('owner_id', '<>', ownerId),
      ]);
    },

    async restart(batch) {
      await writeOwned(batch, [owned(batch).set({ total: 0, completed: 0, failed: 0 }), deleteLines(batch.id)]);
    },

    async begin(batch, { total, problems, now }) {
      await writeOwned(batch, [
        owned(batch).set({ total, problems: JSON.stringify(problems), in_progress_at_ms: now }),
        update(batch.id).set({ status: 'in_progress' }).where('status', '=', 'validating'),
      ]);
    },

    async record(batch, lines) {
      const failed = lines.filter((line) => line.failed).length;
      await writeOwned(batch, [
        owned(batch).set({
          completed: sql<number>`completed + ${lines.length - failed}`,
          failed: sql<number>`failed + ${failed}`,
        }),
        ...lines.map((line) => insertLineOf(toLineRow(batch.id, line))),
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

    async finalize(batch, now) {
      await writeOwned(batch, [
        owned(batch).set({ finalizing_at_ms: sql<number>`coalesce(finalizing_at_ms, ${now})` }),
        update(batch.id).set({ status: 'finalizing' }).where('status', '=', 'in_progress'),
      ]);
    },

    async forget(ids) {
      if (ids.length === 0) return;
      await write([read.deleteFrom('batches').where('id', 'in', ids).where('ended_at_ms', 'is not', null)]);
    },

    async end(batch, { outcome, problems, output, errors, now }) {
      const files = [output, errors].filter((file) => file !== undefined);
      await writeOwned(batch, [
        owned(batch)
          .where('status', 'in', ACTIVE_STATUSES)
          .set({
            status: outcome,
            ended_at_ms: now,
            output_file_id: output?.id ?? null,
            error_file_id: errors?.id ?? null,
            owner_id: null,
            lease_until_ms: LEASE_OVER,
            ...(problems === undefined ? {} : { problems: JSON.stringify(problems) }),
          }),
        ...files.flatMap((file) => [
          read.insertInto('files').values(toFileRow(file)),
          // Results are kept also when they pass the quota: the next upload is refused.
          storedFiles.add(file.accountId, { items: 1, bytes: file.bytes }),
        ]),
        read
          .updateTable('stored_amounts')
          .set((of) => ({ items: of('items', '-', 1) }))
          .where('kind', '=', 'batches')
          .where('account_id', '=', (of) => of.selectFrom('batches').select('account_id').where('id', '=', batch.id)),
        read.deleteFrom('file_attachments').where('job_id', '=', batch.id),
        deleteLines(batch.id),
      ]);
    },
  };
}
