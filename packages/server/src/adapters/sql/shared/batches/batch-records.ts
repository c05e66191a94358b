import type { BatchRecords } from '@baobab/core/ports/batches.ts';
import type { SqlDatabase } from '../database.ts';
import { toFileRow } from '../files.ts';
import { fitsAlone, storedAmounts } from '../stored-amounts.ts';
import { toBatch, toRow } from './batch-rows.ts';

const ONE_BATCH = { items: 1, bytes: 0 };

export function sqlBatchRecords({ read, write, writeIf }: SqlDatabase): BatchRecords {
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
      const rows = await read
        .selectFrom('batches')
        .selectAll()
        .$if(accountId !== undefined, (query) => query.where('account_id', '=', accountId ?? ''))
        .$if(endpoint !== undefined, (query) => query.where('endpoint', '=', endpoint ?? ''))
        .$if(after !== undefined, (query) => query.where('id', '<', after ?? ''))
        .$if(before !== undefined, (query) => query.where('id', '>', before ?? ''))
        .orderBy('id', before === undefined ? 'desc' : 'asc')
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
