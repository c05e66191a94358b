import type { IdempotencyRepository } from '@baobab/core/ports/idempotency.ts';
import type { SqlDatabase } from '../database.ts';
import { LEASE_OVER } from '../leases.ts';
import { ownedRecord } from './record-rows.ts';

const RENEWED_AT_ONCE = 500;

export type RecordLeases = Pick<IdempotencyRepository, 'release' | 'renew' | 'releaseOthers'>;

export function sqlRecordLeases(database: SqlDatabase): RecordLeases {
  const { read, write } = database;

  return {
    async release(ownership) {
      await write([ownedRecord(database, ownership).set({ lease_until_ms: LEASE_OVER })]);
    },

    async renew(ownerId, ids, leaseUntil) {
      const renewed: string[] = [];
      for (let at = 0; at < ids.length; at += RENEWED_AT_ONCE) {
        const [{ rows }] = await write([
          read
            .updateTable('idempotency')
            .set({ lease_until_ms: leaseUntil })
            .where('id', 'in', ids.slice(at, at + RENEWED_AT_ONCE))
            .where('owner_id', '=', ownerId)
            .where('status', 'is', null)
            .where('lease_until_ms', '>', LEASE_OVER)
            .returning('id'),
        ]);
        renewed.push(...rows.map(({ id }) => id));
      }
      return renewed;
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
  };
}
