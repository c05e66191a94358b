import type { IdempotencyRepository } from '@baobab/core/ports/idempotency.ts';
import type { SqlDatabase } from '../database.ts';
import { isExpired, isIdle, removeRecords } from './record-rows.ts';

export type RecordRemoval = Pick<IdempotencyRepository, 'deleteOfAccount' | 'deleteExpired'>;

export function sqlRecordRemoval(database: SqlDatabase): RecordRemoval {
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
        .limit(limit)
        .execute();
      if (expired.length === 0) return [];
      const ids = expired.map((row) => row.id);
      return removeRecords(database, isExpired(ids, now));
    },
  };
}
