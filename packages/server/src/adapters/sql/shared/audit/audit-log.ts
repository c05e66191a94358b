import type { AuditAction, AuditEntry, AuditTarget, AuditVia, FieldChange } from '@baobab/core/domain/audit/entry.ts';
import type { AuditFilter, AuditLog } from '@baobab/core/ports/repositories.ts';
import { type Kysely, sql } from 'kysely';
import type { SqlDatabase } from '../database.ts';
import type { AuditLogTable, Tables } from '../tables.ts';

/** Rows removed in one transaction, so that other writes do not wait long. */
const REMOVE_ROWS = 2_000;

const toRow = ({ actor, target, ...entry }: AuditEntry): AuditLogTable => ({
  id: entry.id,
  time_ms: entry.time,
  action: entry.action,
  via: entry.via,
  actor_id: actor.id,
  actor_name: actor.name,
  actor_account_id: actor.accountId,
  actor_account_name: actor.accountName,
  actor_host: actor.host,
  target_kind: target.kind,
  target_id: target.id,
  target_name: target.name,
  account_id: target.accountId,
  account_name: target.accountName,
  changes: JSON.stringify(entry.changes),
  request_id: entry.requestId,
  address: entry.address,
});

const toEntry = (row: AuditLogTable): AuditEntry => ({
  id: row.id,
  time: row.time_ms,
  action: row.action as AuditAction,
  via: row.via as AuditVia,
  actor: {
    id: row.actor_id,
    name: row.actor_name,
    accountId: row.actor_account_id,
    accountName: row.actor_account_name,
    host: row.actor_host,
  },
  target: {
    kind: row.target_kind as AuditTarget['kind'],
    id: row.target_id,
    name: row.target_name,
    accountId: row.account_id,
    accountName: row.account_name,
  },
  changes: JSON.parse(row.changes) as FieldChange[],
  requestId: row.request_id,
  address: row.address,
});

/** Belongs in the same transaction as the change. */
export const insertAuditEntry = (db: Kysely<Tables>, entry: AuditEntry) =>
  db.insertInto('audit_log').values(toRow(entry));

/**
 * By the filters they serve. Those that select most come first.
 *
 * `shift`: each index has the time plus another number, and a list is ordered by that sum. PostgreSQL chooses an index by statistics, which
 * do not tell how values go together. With the same time in all, it takes that of one column, or of all entries, when it expects many
 * matches there, and reads all of it when there are none or only old ones. This way only one index gives the order.
 */
const INDEXES = [
  { columns: ['target_id', 'action'], shift: 1 },
  { columns: ['target_id'], shift: 2 },
  { columns: ['actor_id', 'account_id', 'action'], shift: 3 },
  { columns: ['actor_id', 'account_id'], shift: 4 },
  { columns: ['actor_id', 'action'], shift: 5 },
  { columns: ['actor_id'], shift: 6 },
  { columns: ['account_id', 'action'], shift: 7 },
  { columns: ['account_id'], shift: 8 },
  { columns: ['action'], shift: 9 },
] as const;
const ALL_ENTRIES = { columns: ['time'], shift: 0 } as const;

function indexFor({ targetId, actorId, accountId, action }: AuditFilter) {
  const values = { target_id: targetId, actor_id: actorId, account_id: accountId, action };
  return INDEXES.find(({ columns }) => columns.every((column) => values[column] !== undefined)) ?? ALL_ENTRIES;
}

const shiftedTime = ({ shift }: { shift: number }) => sql<number>`(time_ms + ${sql.lit(shift)})`;

function matching(db: Kysely<Tables>, { byIndex }: Pick<SqlDatabase, 'byIndex'>, filter: AuditFilter) {
  const { targetId, actorId, accountId, action, actorAccountId, start, end } = filter;
  const index = indexFor(filter);
  const time = shiftedTime(index);
  return db
    .selectFrom(byIndex('audit_log', `audit_log_by_${index.columns.join('_and_')}`))
    .$if(targetId !== undefined, (rows) => rows.where('target_id', '=', targetId ?? ''))
    .$if(actorId !== undefined, (rows) => rows.where('actor_id', '=', actorId ?? ''))
    .$if(accountId !== undefined, (rows) => rows.where('account_id', '=', accountId ?? ''))
    .$if(action !== undefined, (rows) => rows.where('action', '=', action ?? ''))
    .$if(actorAccountId !== undefined, (rows) => rows.where('actor_account_id', '=', actorAccountId ?? ''))
    .$if(start !== undefined, (rows) => rows.where(time, '>=', (start ?? 0) + index.shift))
    .$if(end !== undefined, (rows) => rows.where(time, '<', (end ?? 0) + index.shift));
}

export function auditListQuery(
  db: Kysely<Tables>,
  database: Pick<SqlDatabase, 'byIndex'>,
  filter: AuditFilter,
  { limit, before }: Parameters<AuditLog['list']>[1],
) {
  const index = indexFor(filter);
  const time = shiftedTime(index);
  const last = (before?.time ?? 0) + index.shift;
  return matching(db, database, filter)
    .selectAll()
    .$if(before !== undefined, (query) =>
      query.where(({ or, and, eb }) =>
        and([eb(time, '<=', last), or([eb(time, '<', last), eb('id', '<', before?.id ?? '')])]),
      ),
    )
    .orderBy(time, 'desc')
    .orderBy('id', 'desc')
    .limit(limit);
}

export function sqlAuditLog(database: SqlDatabase): AuditLog {
  const { read, write } = database;
  return {
    async append(entry) {
      await write([insertAuditEntry(read, entry)]);
    },
    async list(filter, page, caller) {
      const rows = await auditListQuery(database.report(caller), database, filter, page).execute();
      return rows.map(toEntry);
    },
    async count(filter) {
      const { count } = await matching(read, database, filter)
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .executeTakeFirstOrThrow();
      return Number(count);
    },
    async removeOlder(than) {
      const oldest = read
        .selectFrom(database.byIndex('audit_log', 'audit_log_by_time'))
        .select('id')
        .where(shiftedTime(ALL_ENTRIES), '<', than)
        .orderBy(shiftedTime(ALL_ENTRIES))
        .limit(REMOVE_ROWS);
      const rows = database.byIndex('audit_log', 'sqlite_autoindex_audit_log_1');
      const [{ changes }] = await write([read.deleteFrom(rows).where(database.soughtIn('id', oldest))]);
      return changes;
    },
  };
}
