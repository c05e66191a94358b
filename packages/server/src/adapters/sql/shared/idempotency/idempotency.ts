import type { IdempotencyRepository } from '@baobab/core/ports/idempotency.ts';
import type { SqlDatabase } from '../database.ts';
import { LEASE_OVER } from '../leases.ts';
import { isExpired, isIdle, ownedRecord, removeRecords } from './record-rows.ts';
import { sqlRecordRuns } from './record-runs.ts';

const RENEWED_AT_ONCE = 500;

export const sqlIdempotency = (database: SqlDatabase): IdempotencyRepository => ({
  ...sqlRecordRuns(database),
  ...sqlRecordLeases(database),
  ...sqlRecordRemoval(database),
});

type RecordLeases = Pick<IdempotencyRepository, 'release' | 'renew' | 'releaseOthers'>;

function sqlRecordLeases(database: SqlDatabase): RecordLeases {
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

type RecordRemoval = Pick<IdempotencyRepository, 'deleteOfAccount' | 'deleteExpired'>;

function sqlRecordRemoval(database: SqlDatabase): RecordRemoval {
  const { read } = database;

  return {
    async deleteOfAccount(accountId, { now, limit }) {
      const found = await read
        .selectFrom('idempotency')
        .select('id')
        .where('account_id', '=', accountId)
        .where(isIdle(now))
        .limit(limit)
        .execute();
      if (found.length === 0) return [];
      const ids = found.map((row) => row.id);
      return removeRecords(database, (of) => of.and([of('id', 'in', ids), isIdle(now)(of)]));
    },

    async deleteExpired(now, limit) {
      const expired = await read
        .selectFrom('idempotency')
        .select('id')
        .where('expires_at_ms', '<=', now)
        .orderBy('expires_at_ms')
        .limit(limit)
        .execute();
      if (expired.length === 0) return [];
      const ids = expired.map((row) => row.id);
      return removeRecords(database, isExpired(ids, now));
    },
  };
}
