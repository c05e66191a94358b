import { ACTIVE_STATUSES } from '@baobab/core/domain/batch.ts';
import type { BatchProgress, OwnedBatch } from '@baobab/core/ports/batches.ts';
import { LeaseLostError } from '@baobab/core/ports/store-errors.ts';
import type { Compilable } from 'kysely';
import type { SqlDatabase } from '../database.ts';
import { toFileRow } from '../files.ts';
import { LEASE_OVER } from '../leases.ts';
import { storedAmounts } from '../stored-amounts.ts';
import { batchStatements, lineStatements, SHARED, toLine, toSliceRow } from './batch-rows.ts';

export function sqlBatchProgress({ read, writeIf }: SqlDatabase): BatchProgress {
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
