import { type ExpressionBuilder, sql } from 'kysely';
import type { ClaimResult, IdempotencyRecord, IdempotencyRepository, Ownership } from '../../../ports/idempotency.ts';
import type { SqlDatabase } from './database.ts';
import { LEASE_OVER } from './leases.ts';
import { fitsAlone, storedAmounts } from './stored-amounts.ts';
import type { IdempotencyTable, Tables } from './tables.ts';

const RENEWED_AT_ONCE = 500;
const ONE_RECORD = { items: 1, bytes: 0 };

/** Most answers have these headers; they are stored as null. */
const JSON_HEADERS = '{"content-type":"application/json; charset=utf-8"}';

const toRecord = (row: IdempotencyTable): IdempotencyRecord => ({
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

const isOwned =
  ({ id, runId, ownerId }: Ownership): Condition =>
  (of) =>
    of.and([of('id', '=', id), of('run_id', '=', runId), of('owner_id', '=', ownerId), of('status', 'is', null)]);

const isExpired =
  (ids: readonly string[], now: number): Condition =>
  (of) =>
    of.and([of('id', 'in', ids), of('expires_at_ms', '<=', now)]);

/** Answered, or without an owner. */
const isIdle =
  (now: number): Condition =>
  (of) =>
    of.or([of('status', 'is not', null), of('lease_until_ms', '<=', now)]);

export function sqlIdempotency({ read, write, writeIf }: SqlDatabase): IdempotencyRepository {
  const amounts = storedAmounts(read, 'idempotency');
  const owned = (ownership: Ownership) => read.updateTable('idempotency').where(isOwned(ownership));

  /** Deletes records and takes them off the amounts of their accounts. */
  const remove = async (condition: Condition) => {
    const removed = read.selectFrom('idempotency').where(condition);
    const [, { rows }] = await write([
      read
        .updateTable('stored_amounts')
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
  };

  return {
    async claim({ now, ...claim }, quota) {
      const { id, accountId, bodyHash, runId, ownerId, leaseUntil, expiresAt } = claim;
      let replacedRunId: string | undefined;
      // Another round is for a record that had expired, or was removed between two steps.
      for (;;) {
        const created = await writeIf(
          [
            read
              .insertInto('idempotency')
              .values({
                id,
                account_id: accountId,
                body_hash: bodyHash,
                run_id: runId,
                owner_id: ownerId,
                lease_until_ms: leaseUntil,
                expires_at_ms: expiresAt,
                status: null,
                headers: null,
                body: null,
                bytes: 0,
              })
              .onConflict((conflict) => conflict.column('id').doNothing()),
            amounts.add(accountId, ONE_RECORD, { items: quota.items, bytes: 0 }),
          ],
          { guards: 2 },
        );
        if (created) return { claimed: true, record: { ...claim, answer: null }, replacedRunId };
        const [taken, found] = await write([
          read
            .updateTable('idempotency')
            .set({ owner_id: ownerId, lease_until_ms: leaseUntil })
            .where('id', '=', id)
            .where('body_hash', '=', bodyHash)
            .where('status', 'is', null)
            .where('expires_at_ms', '>', now)
            .where((of) => of.or([of('lease_until_ms', '<=', now), of('owner_id', '=', ownerId)])),
          read.selectFrom('idempotency').selectAll().where('id', '=', id),
        ]);
        const [row] = found.rows;
        if (row !== undefined && row.expires_at_ms > now) {
          return { claimed: taken.changes > 0, record: toRecord(row), replacedRunId } satisfies ClaimResult;
        }
        if (row !== undefined) replacedRunId = (await remove(isExpired([id], now)))[0]?.runId ?? replacedRunId;
        else if (quota.items > 0 && (await amounts.get(accountId)).items >= quota.items) return undefined;
      }
    },

    async complete(ownership, { status, headers, body, bytes }, quota) {
      const amount = { items: 0, bytes };
      const limit = { items: 0, bytes: quota.bytes };
      const text = JSON.stringify(headers);
      const changes = { status, headers: text === JSON_HEADERS ? null : text, body, bytes };
      const stored =
        fitsAlone(amount, limit) &&
        (await writeIf(
          [
            owned(ownership).set(changes).where('account_id', '=', ownership.accountId),
            amounts.add(ownership.accountId, amount, limit),
          ],
          { guards: 2 },
        ));
      if (stored) return 'stored';
      const removed = await remove(isOwned(ownership));
      return removed.length > 0 ? 'over quota' : 'lost';
    },

    stored: amounts.get,

    async abandon(ownership) {
      await remove(isOwned(ownership));
    },

    async release(ownership) {
      await write([owned(ownership).set({ lease_until_ms: LEASE_OVER })]);
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
      return remove((of) => of.and([of('id', 'in', ids), isIdle(now)(of)]));
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
      return remove(isExpired(ids, now));
    },
  };
}
