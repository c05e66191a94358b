import type { ClaimResult, IdempotencyRepository, Ownership } from '@baobab/core/ports/idempotency.ts';
import type { SqlDatabase } from '../database.ts';
import { LEASE_OVER } from '../leases.ts';
import { fitsAlone, storedAmounts } from '../stored-amounts.ts';
import { isExpired, isIdle, isOwned, JSON_HEADERS, ownedRecord, removeRecords, toRecord } from './record-rows.ts';

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

const ONE_RECORD = { items: 1, bytes: 0 };

/** What a run of a request does with its record. */
type RecordRuns = Pick<IdempotencyRepository, 'claim' | 'complete' | 'stored' | 'abandon'>;

function sqlRecordRuns(database: SqlDatabase): RecordRuns {
  const { read, write, writeIf } = database;
  const amounts = storedAmounts(read, 'idempotency');

  /** False: another process has the run, or it has ended. */
  async function removeOwned(ownership: Ownership): Promise<boolean> {
    const removed = await writeIf(
      [
        read.deleteFrom('idempotency').where(isOwned(ownership)).where('account_id', '=', ownership.accountId),
        // Without an answer it has no bytes.
        amounts.subtract(ownership.accountId, (of) => of.val(0)),
      ],
      { byRowLocks: true },
    );
    return removed !== undefined;
  }

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
          { guards: 2, byRowLocks: true },
        );
        if (created) return { claimed: true, record: { ...claim, answer: null }, replacedRunId };
        const [taken, found] = await write(
          [
            read
              .updateTable('idempotency')
              .set({ owner_id: ownerId, lease_until_ms: leaseUntil })
              .where('id', '=', id)
              .where('body_hash', '=', bodyHash)
              .where('status', 'is', null)
              .where('expires_at_ms', '>', now)
              .where((of) => of.or([of('lease_until_ms', '<=', now), of('owner_id', '=', ownerId)])),
            read.selectFrom('idempotency').selectAll().where('id', '=', id),
          ],
          { byRowLocks: true },
        );
        const [row] = found.rows;
        if (row !== undefined && row.expires_at_ms > now) {
          return { claimed: taken.changes > 0, record: toRecord(row), replacedRunId } satisfies ClaimResult;
        }
        if (row !== undefined)
          replacedRunId = (await removeRecords(database, isExpired([id], now)))[0]?.runId ?? replacedRunId;
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
            ownedRecord(database, ownership).set(changes).where('account_id', '=', ownership.accountId),
            amounts.add(ownership.accountId, amount, limit),
          ],
          { guards: 2, byRowLocks: true },
        ));
      if (stored) return 'stored';
      return (await removeOwned(ownership)) ? 'over quota' : 'lost';
    },

    stored: amounts.get,

    async abandon(ownership) {
      await removeOwned(ownership);
    },
  };
}
