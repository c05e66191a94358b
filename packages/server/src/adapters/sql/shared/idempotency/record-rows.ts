import type { IdempotencyRecord, Ownership } from '@baobab/core/ports/idempotency.ts';
import { type ExpressionBuilder, sql } from 'kysely';
import type { SqlDatabase } from '../database.ts';
import type { IdempotencyTable, Tables } from '../tables.ts';

/** Most answers have these headers; they are stored as null. */
export const JSON_HEADERS = '{"content-type":"application/json; charset=utf-8"}';

export const toRecord = (row: IdempotencyTable): IdempotencyRecord => ({
  id: row.id,
  accountId: row.account_id,
  bodyHash: row.body_hash,
  runId: row.run_id,
  ownerId: row.owner_id,
  leaseUntil: row.lease_until_ms,
  expiresAt: row.expires_at_ms,
  answer:
    row.status === null
      ? null
      : { status: row.status, headers: JSON.parse(row.headers ?? JSON_HEADERS), body: row.body, bytes: row.bytes },
});

type Records = ExpressionBuilder<Tables, 'idempotency'>;
type Condition = (of: Records) => ReturnType<Records['and']>;

export const isOwned =
  ({ id, runId, ownerId }: Ownership): Condition =>
  (of) =>
    of.and([of('id', '=', id), of('run_id', '=', runId), of('owner_id', '=', ownerId), of('status', 'is', null)]);

export const isExpired =
  (ids: readonly string[], now: number): Condition =>
  (of) =>
    of.and([of('id', 'in', ids), of('expires_at_ms', '<=', now)]);

/** Answered, or without an owner. */
export const isIdle =
  (now: number): Condition =>
  (of) =>
    of.or([of('status', 'is not', null), of('lease_until_ms', '<=', now)]);

export const ownedRecord = ({ read }: SqlDatabase, ownership: Ownership) =>
  read.updateTable('idempotency').where(isOwned(ownership));

export interface RemovedRecord {
  id: string;
  runId: string;
}

/** Deletes records and takes them off the amounts of their accounts. */
export async function removeRecords(
  { read, write, byIndex }: SqlDatabase,
  condition: Condition,
): Promise<RemovedRecord[]> {
  const removed = read.selectFrom('idempotency').where(condition);
  const [, { rows }] = await write([
    read
      .updateTable(byIndex('stored_amounts', 'sqlite_autoindex_stored_amounts_1'))
      .set((of) => {
        const own = removed.where('idempotency.account_id', '=', sql.ref<string>('stored_amounts.account_id'));
        return {
          items: of('items', '-', own.select(sql<number>`count(*)`.as('items')).$asScalar()),
          bytes: of('bytes', '-', own.select(sql<number>`coalesce(sum(bytes), 0)`.as('bytes')).$asScalar()),
        };
      })
      .where('kind', '=', 'idempotency')
      .where('account_id', 'in', removed.select('account_id')),
    read.deleteFrom('idempotency').where(condition).returning(['id', 'run_id']),
  ]);
  return rows.map((row) => ({ id: row.id, runId: row.run_id }));
}
