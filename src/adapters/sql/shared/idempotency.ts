import type { IdempotencyRecord, IdempotencyRepository, Ownership } from '../../../ports/idempotency.ts';
import type { SqlDatabase } from './database.ts';
import type { IdempotencyTable } from './tables.ts';

const LEASE_OVER = 0;

const toRecord = (row: IdempotencyTable): IdempotencyRecord => ({
  id: row.id,
  bodyHash: row.body_hash,
  runId: row.run_id,
  ownerId: row.owner_id,
  leaseUntil: row.lease_until_ms,
  expiresAt: row.expires_at_ms,
  answer: row.status === null ? null : { status: row.status, headers: JSON.parse(row.headers ?? '{}'), body: row.body },
});

export function sqlIdempotency({ read, write }: SqlDatabase): IdempotencyRepository {
  const owned = ({ id, runId, ownerId }: Ownership) =>
    read
      .updateTable('idempotency')
      .where('id', '=', id)
      .where('run_id', '=', runId)
      .where('owner_id', '=', ownerId)
      .where('status', 'is', null);

  return {
    async claim({ id, bodyHash, runId, ownerId, leaseUntil, expiresAt, now }) {
      const [expired, taken, found] = await write([
        read.deleteFrom('idempotency').where('id', '=', id).where('expires_at_ms', '<=', now).returning('run_id'),
        read
          .insertInto('idempotency')
          .values({
            id,
            body_hash: bodyHash,
            run_id: runId,
            owner_id: ownerId,
            lease_until_ms: leaseUntil,
            expires_at_ms: expiresAt,
            status: null,
            headers: null,
            body: null,
          })
          .onConflict((conflict) =>
            conflict
              .column('id')
              .doUpdateSet({ owner_id: ownerId, lease_until_ms: leaseUntil })
              .where('idempotency.status', 'is', null)
              .where((of) =>
                of.or([of('idempotency.lease_until_ms', '<=', now), of('idempotency.owner_id', '=', ownerId)]),
              )
              .where('idempotency.body_hash', '=', bodyHash),
          ),
        read.selectFrom('idempotency').selectAll().where('id', '=', id),
      ]);
      const [row] = found.rows;
      if (!row) throw new Error('the idempotency record that was just written is missing');
      return { claimed: taken.changes > 0, record: toRecord(row), replacedRunId: expired.rows[0]?.run_id };
    },

    async complete(ownership, { status, headers, body }) {
      const [{ changes }] = await write([owned(ownership).set({ status, headers: JSON.stringify(headers), body })]);
      return changes > 0;
    },

    async abandon({ id, runId, ownerId }) {
      await write([
        read
          .deleteFrom('idempotency')
          .where('id', '=', id)
          .where('run_id', '=', runId)
          .where('owner_id', '=', ownerId)
          .where('status', 'is', null),
      ]);
    },

    async release(ownership) {
      await write([owned(ownership).set({ lease_until_ms: LEASE_OVER })]);
    },

    async renew(ownerId, leaseUntil) {
      await write([
        read
          .updateTable('idempotency')
          .set({ lease_until_ms: leaseUntil })
          .where('owner_id', '=', ownerId)
          .where('status', 'is', null)
          .where('lease_until_ms', '>', LEASE_OVER),
      ]);
    },

    async releaseOthers(ownerId) {
      await write([
        read
          .updateTable('idempotency')
          .set({ lease_until_ms: LEASE_OVER })
          .where('owner_id', '<>', ownerId)
          .where('status', 'is', null),
      ]);
    },

    async deleteExpired(now, limit) {
      const [{ rows }] = await write([
        read
          .deleteFrom('idempotency')
          .where('id', 'in', (from) =>
            from.selectFrom('idempotency').select('id').where('expires_at_ms', '<=', now).limit(limit),
          )
          .returning(['id', 'run_id']),
      ]);
      return rows.map((row) => ({ id: row.id, runId: row.run_id }));
    },
  };
}
