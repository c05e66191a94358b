import { ACTIVE_STATUSES } from '@baobab/core/domain/batch.ts';
import type {
  BatchClaims,
  BatchProgress,
  BatchRecords,
  BatchRepository,
  OwnedBatch,
} from '@baobab/core/ports/batches.ts';
import { LeaseLostError } from '@baobab/core/ports/store-errors.ts';
import { type Compilable, sql } from 'kysely';
import type { SqlDatabase } from '../database.ts';
import { toFileRow } from '../files.ts';
import { LEASE_OVER, orNone, placeInAccount } from '../leases.ts';
import { fitsAlone, storedAmounts } from '../stored-amounts.ts';
import { batchStatements, lineStatements, SHARED, toBatch, toLine, toRow, toSliceRow } from './batch-rows.ts';

export const sqlBatches = (database: SqlDatabase): BatchRepository => ({
  ...sqlBatchRecords(database),
  ...sqlBatchClaims(database),
  ...sqlBatchProgress(database),
});

/** No process works on its slices. */
const hasIdleSlices = (table: string, now: number) =>
  sql<boolean>`(${sql.ref(`${table}.lease_until_ms`)} = ${SHARED} and not exists (
    select 1 from batch_slices where batch_slices.batch_id = ${sql.ref(`${table}.id`)} and batch_slices.owner_id is not null
    and batch_slices.lease_until_ms > ${now}))`;

/** A cancelled batch ends when no process works on its slices. */
const canBeClaimed = (table: string, now: number) =>
  sql<boolean>`(${sql.ref(`${table}.lease_until_ms`)} <= ${now}
    or (${sql.ref(`${table}.status`)} = 'cancelling' and ${hasIdleSlices(table, now)}))`;

function sqlBatchClaims({ read, write }: SqlDatabase): BatchClaims {
  const { update, owned } = batchStatements(read);

  return {
    async claim({ ownerId, now, leaseUntil, limit, perAccount, holding }) {
      const [{ rows }] = await write([
        read
          .updateTable('batches')
          .set({ owner_id: ownerId, lease_until_ms: leaseUntil })
          .where(canBeClaimed('batches', now))
          .where('id', 'in', (of) =>
            of
              .selectFrom((from) =>
                from
                  .selectFrom('batches as waiting')
                  .where('ended_at_ms', 'is', null)
                  .where(canBeClaimed('waiting', now))
                  .where('id', 'not in', orNone(holding))
                  .select(['id', placeInAccount('batches', holding).as('place')])
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

    async claimWhole({ id, ownerId }, { now, until }) {
      const [{ changes }] = await write([
        update(id)
          .set({ owner_id: ownerId, lease_until_ms: until })
          .where('ended_at_ms', 'is', null)
          .where((where) => where.or([where('lease_until_ms', '<=', now), hasIdleSlices('batches', now)])),
      ]);
      return changes > 0;
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

    async release(batch) {
      await write([owned(batch).set({ owner_id: null, lease_until_ms: LEASE_OVER })]);
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
  };
}

function sqlBatchProgress({ read, writeIf }: SqlDatabase): BatchProgress {
  const { update, owned } = batchStatements(read);
  const storedFiles = storedAmounts(read, 'files');
  const lineOf = lineStatements(read);
  /** The first statement changes the batch only if it is owned. */
  const writeOwned = async ({ id, ownerId }: OwnedBatch, statements: readonly Compilable[]): Promise<void> => {
    if ((await writeIf(statements)) === undefined) throw new LeaseLostError(`${ownerId} does not own the batch ${id}`);
  };
  const deleteLines = (id: string) => read.deleteFrom('batch_lines').where('batch_id', '=', id);
  const deleteSlices = (id: string) => read.deleteFrom('batch_slices').where('batch_id', '=', id);

  return {
    async restart(batch) {
      await writeOwned(batch, [owned(batch).set({ completed: 0, failed: 0, expired: 0 }), deleteLines(batch.id)]);
    },

    async begin(batch, { total, problems, slices, now }) {
      await writeOwned(batch, [
        owned(batch).set({
          total,
          problems: JSON.stringify(problems),
          in_progress_at_ms: now,
          owner_id: null,
          lease_until_ms: SHARED,
        }),
        update(batch.id).set({ status: 'in_progress' }).where('status', '=', 'validating'),
        ...slices.map((slice) => read.insertInto('batch_slices').values(toSliceRow(batch.id, slice))),
      ]);
    },

    async record(batch, lines) {
      await writeOwned(batch, [
        owned(batch).set(lineOf.counts(lines)),
        ...lines.map((line) => lineOf.insert(batch.id, line)),
      ]);
    },

    async recordedLines(id, { after, last, limit }) {
      const rows = await read
        .selectFrom('batch_lines')
        .select('line')
        .where('batch_id', '=', id)
        .where('line', '>', after)
        .where('line', '<=', last)
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

    async end(batch, { outcome, problems, output, errors, bills, now }) {
      const files = [output, errors].filter((file) => file !== undefined);
      await writeOwned(batch, [
        owned(batch)
          .where('status', 'in', ACTIVE_STATUSES)
          .set({
            status: outcome,
            ended_at_ms: now,
            output_file_id: output?.id ?? null,
            error_file_id: errors?.id ?? null,
            bills: JSON.stringify(bills),
            owner_id: null,
            lease_until_ms: LEASE_OVER,
            ...(problems === undefined ? {} : { problems: JSON.stringify(problems) }),
          }),
        ...files.flatMap((file) => [
          read.insertInto('files').values(toFileRow(file)),
          // Results are kept even beyond the quota: the next upload is refused.
          storedFiles.add(file.accountId, { items: 1, bytes: file.bytes }),
        ]),
        read
          .updateTable('stored_amounts')
          .set((of) => ({ items: of('items', '-', 1) }))
          .where('kind', '=', 'batches')
          .where('account_id', '=', (of) => of.selectFrom('batches').select('account_id').where('id', '=', batch.id)),
        read.deleteFrom('file_attachments').where('job_id', '=', batch.id),
        deleteLines(batch.id),
        deleteSlices(batch.id),
      ]);
    },
  };
}

const ONE_BATCH = { items: 1, bytes: 0 };

function sqlBatchRecords({ read, write, writeIf, pagedBy }: SqlDatabase): BatchRecords {
  const storedFiles = storedAmounts(read, 'files');
  const activeBatches = storedAmounts(read, 'batches');

  return {
    async create(batch, maxActive, input) {
      const quota = { items: maxActive, bytes: 0 };
      const amount = { items: 1, bytes: input?.file.bytes ?? 0 };
      if (input !== undefined && !fitsAlone(amount, input.quota)) return 'quota exceeded';
      const newFile =
        input === undefined
          ? []
          : [
              storedFiles.add(batch.accountId, amount, input.quota),
              read.insertInto('files').values(toFileRow(input.file)),
            ];
      const statements = [
        ...newFile,
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
      if ((await writeIf(statements, { guards: newFile.length + 2 })) !== undefined) return 'created';
      const { items } = await activeBatches.get(batch.accountId);
      if (maxActive > 0 && items >= maxActive) return 'too many active';
      return input === undefined ? 'input gone' : 'quota exceeded';
    },

    async get(id) {
      const row = await read.selectFrom('batches').selectAll().where('id', '=', id).executeTakeFirst();
      return row && toBatch(row);
    },

    async list({ accountId, limit, after, before, endpoint }) {
      const direction = before === undefined ? 'desc' : 'asc';
      const rows = await read
        .selectFrom('batches')
        .selectAll()
        .$if(accountId !== undefined, (query) =>
          query.where(pagedBy('account_id', accountId ?? '')).orderBy('account_id', direction),
        )
        .$if(endpoint !== undefined, (query) => query.where('endpoint', '=', endpoint ?? ''))
        .$if(after !== undefined, (query) => query.where('id', '<', after ?? ''))
        .$if(before !== undefined, (query) => query.where('id', '>', before ?? ''))
        .orderBy('id', direction)
        .limit(limit)
        .execute();
      const batches = rows.map(toBatch);
      return before === undefined ? batches : batches.reverse();
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
        read
          .updateTable('batches')
          .where('id', '=', id)
          .set({ status: 'cancelling', cancelling_at_ms: now })
          .where('status', 'in', ['validating', 'in_progress']),
      ]);
    },

    async forget(ids) {
      if (ids.length === 0) return;
      await write([read.deleteFrom('batches').where('id', 'in', ids).where('ended_at_ms', 'is not', null)]);
    },
  };
}
