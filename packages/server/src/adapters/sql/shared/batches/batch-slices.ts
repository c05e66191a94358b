import type { BatchSliceRepository, OwnedBatch } from '@baobab/core/ports/batches.ts';
import { LeaseLostError } from '@baobab/core/ports/store-errors.ts';
import { sql } from 'kysely';
import type { SqlDatabase } from '../database.ts';
import { LEASE_OVER, orNone, placeInAccount } from '../leases.ts';
import { lineStatements, toBatch, toSlice } from './batch-rows.ts';

/** SQL has no empty list. */
const NO_LINE = 0;
const byNumber = (one: number, other: number): number => one - other;
const NO_OWNER = { owner_id: null, lease_until_ms: LEASE_OVER };

const BY_ROW_LOCKS = { byRowLocks: true };

/**
 * `batches.owner_id` is null while processes work on slices. It is set by the process that ends the batch, which stops all others.
 *
 * Slices are claimed and deleted under the lock of their batch's row, which is taken first. Then slices are locked in the order of their
 * lines.
 */
export function sqlBatchSlices({ read, write, writeIf }: SqlDatabase): BatchSliceRepository {
  const lineOf = lineStatements(read);
  // One that ended has no owner either.
  const sharedBatch = (id: string) =>
    read.updateTable('batches').where('id', '=', id).where('owner_id', 'is', null).where('ended_at_ms', 'is', null);
  /** Changes nothing. A lock alone would not stop an isolated transaction that has seen the batch and its slices before. */
  const lock = (id: string) =>
    read
      .updateTable('batches')
      .where('id', '=', id)
      .set((of) => ({ status: of.ref('status') }));
  const update = ({ id, ownerId }: OwnedBatch) =>
    read.updateTable('batch_slices').where('batch_id', '=', id).where('owner_id', '=', ownerId);
  const slice = (batch: OwnedBatch, firstLine: number) => update(batch).where('first_line', '=', firstLine);
  const remove = ({ id, ownerId }: OwnedBatch, firstLine: number) =>
    read
      .deleteFrom('batch_slices')
      .where('batch_id', '=', id)
      .where('first_line', '=', firstLine)
      .where('owner_id', '=', ownerId);

  return {
    async joinable({ now, limit, perAccount, holding, unserved }) {
      const rows = await read
        .with('ranked', (db) =>
          db
            .selectFrom('batches as waiting')
            .where('ended_at_ms', 'is', null)
            .where('status', '=', 'in_progress')
            .where('owner_id', 'is', null)
            .where('id', 'not in', orNone(holding))
            .where(({ exists, selectFrom }) =>
              exists(
                selectFrom('batch_slices')
                  .select('first_line')
                  .whereRef('batch_slices.batch_id', '=', 'waiting.id')
                  .where('batch_slices.lease_until_ms', '<=', now),
              ),
            )
            .select((select) => [
              'id',
              placeInAccount('batches', holding).as('place'),
              select
                .selectFrom('batch_slices as taken')
                .innerJoin('batches as theirs', 'theirs.id', 'taken.batch_id')
                .whereRef('theirs.account_id', '=', 'waiting.account_id')
                .where('taken.owner_id', 'is not', null)
                .where('taken.lease_until_ms', '>', now)
                .select(sql<number>`count(distinct taken.batch_id || ' ' || taken.owner_id)`.as('shares'))
                .as('shares'),
            ]),
        )
        .selectFrom('ranked')
        .innerJoin('batches', 'batches.id', 'ranked.id')
        .selectAll('batches')
        .where('place', '<=', perAccount)
        .$if(unserved, (query) => query.where('shares', '=', 0))
        .orderBy('shares')
        .orderBy('place')
        .orderBy('ranked.id')
        .limit(limit)
        .execute();
      return rows.map(toBatch);
    },

    async claim({ id, ownerId }, { now, until, holding }) {
      const open = read
        .updateTable('batch_slices')
        .set({ owner_id: ownerId, lease_until_ms: until })
        .where('batch_id', '=', id)
        .where('first_line', '=', (of) =>
          of
            .selectFrom('batch_slices as open')
            .select('first_line')
            .where('batch_id', '=', id)
            .where('lease_until_ms', '<=', now)
            .where('first_line', 'not in', holding.length === 0 ? [NO_LINE] : holding)
            .orderBy('first_line')
            .limit(1),
        )
        // Its owner may renew it at this moment, without the lock of the batch.
        .where('lease_until_ms', '<=', now)
        .where(({ exists, selectFrom }) =>
          exists(
            selectFrom('batches')
              .select('batches.id')
              .where('batches.id', '=', id)
              .where('batches.status', '=', 'in_progress')
              .where('batches.owner_id', 'is', null),
          ),
        );
      const [, { rows }] = await write([lock(id), open.returningAll()], BY_ROW_LOCKS);
      return rows[0] && toSlice(rows[0]);
    },

    async renew(batch, firstLines, leaseUntil) {
      if (firstLines.length === 0) return new Set();
      const renewed = await write(
        firstLines
          .toSorted(byNumber)
          .map((firstLine) => slice(batch, firstLine).set({ lease_until_ms: leaseUntil }).returning('first_line')),
        BY_ROW_LOCKS,
      );
      return new Set(renewed.flatMap(({ rows }) => rows.map((row) => row.first_line)));
    },

    async release(batch) {
      await write([update(batch).set(NO_OWNER)], BY_ROW_LOCKS);
    },

    async releaseOthers(ownerId) {
      await write([read.updateTable('batch_slices').set(NO_OWNER).where('owner_id', '<>', ownerId)]);
    },

    async record(batch, { lines, slices, finished, now }) {
      const { id, ownerId } = batch;
      const guards = [
        sharedBatch(id).set(lineOf.counts(lines)),
        ...[...new Set([...slices, ...finished])]
          .sort(byNumber)
          .map((firstLine) =>
            finished.includes(firstLine)
              ? remove(batch, firstLine)
              : slice(batch, firstLine).set({ owner_id: ownerId }),
          ),
      ];
      const finalize = sharedBatch(id)
        .set({ status: 'finalizing', finalizing_at_ms: now, lease_until_ms: LEASE_OVER })
        .where('status', '=', 'in_progress')
        .where(({ not, exists, selectFrom }) =>
          not(exists(selectFrom('batch_slices').select('first_line').where('batch_id', '=', id))),
        );
      const written = await writeIf(
        [...guards, ...lines.map((line) => lineOf.insert(id, line)), ...(finished.length > 0 ? [finalize] : [])],
        { guards: guards.length, ...BY_ROW_LOCKS },
      );
      if (written === undefined) throw new LeaseLostError(`${ownerId} has lost slices of the batch ${id}`);
    },
  };
}
