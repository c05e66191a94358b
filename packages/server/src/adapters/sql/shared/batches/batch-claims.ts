import type { BatchClaims } from '@baobab/core/ports/batches.ts';
import { sql } from 'kysely';
import type { SqlDatabase } from '../database.ts';
import { LEASE_OVER, orNone, placeInAccount } from '../leases.ts';
import { batchStatements, SHARED, toBatch } from './batch-rows.ts';

/** No process works on its slices. */
const hasIdleSlices = (table: string, now: number) =>
  sql<boolean>`(${sql.ref(`${table}.lease_until_ms`)} = ${SHARED} and not exists (
    select 1 from batch_slices where batch_slices.batch_id = ${sql.ref(`${table}.id`)} and batch_slices.owner_id is not null
    and batch_slices.lease_until_ms > ${now}))`;

/** A cancelled batch ends when no process works on its slices. */
const canBeClaimed = (table: string, now: number) =>
  sql<boolean>`(${sql.ref(`${table}.lease_until_ms`)} <= ${now}
    or (${sql.ref(`${table}.status`)} = 'cancelling' and ${hasIdleSlices(table, now)}))`;

export function sqlBatchClaims({ read, write }: SqlDatabase): BatchClaims {
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
