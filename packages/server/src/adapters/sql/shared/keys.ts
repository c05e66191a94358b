import {
  ACCOUNT_FIELDS,
  type Account,
  type ApiKey,
  type Changes,
  KEY_FIELDS,
  type KeyRights,
} from '@baobab/core/domain/principal.ts';
import type { KeyRepository } from '@baobab/core/ports/repositories.ts';
import { DuplicateError } from '@baobab/core/ports/store-errors.ts';
import { expressionBuilder, type Kysely, sql } from 'kysely';
import { inPage, isSearch, pageOrder } from './accounts.ts';
import { insertAuditEntry } from './audit/audit-log.ts';
import { changeAudited, unchanged, writeFromStored } from './audit/audited-change.ts';
import type { SqlDatabase } from './database.ts';
import { columnNames, columnsOf, fieldsOf } from './fields.ts';
import { announceKey } from './revisions.ts';
import type { ApiKeysTable, Tables } from './tables.ts';

const { exists, not, val } = expressionBuilder<Tables>();

const toRow = (key: ApiKey, hash: string) => ({ ...columnsOf<ApiKeysTable>(KEY_FIELDS, key), hash }) as ApiKeysTable;

const toKey = (row: ApiKeysTable): ApiKey => fieldsOf<ApiKey>(KEY_FIELDS, row);

const changedColumns = (changed: Changes<KeyRights & Pick<ApiKey, 'revokedAt'>>): Partial<ApiKeysTable> =>
  columnsOf(KEY_FIELDS, changed);

const keyRow = (read: Kysely<Tables>, id: string) =>
  read.selectFrom('api_keys').selectAll().where('id', '=', id).executeTakeFirst();

const PREFIX = 'account_of_key_';
const ACCOUNT_COLUMNS = columnNames(ACCOUNT_FIELDS).map((name) => sql.ref(`accounts.${name}`).as(`${PREFIX}${name}`));

/** Changes leave entries in the audit log, and are announced to other servers. */
export function sqlKeys({ read, report, byIndex, write, writeIf }: SqlDatabase): KeyRepository {
  /** Changes the row only if it is as it was read. Uses do not count. */
  const changing = ({ last_used_at_ms: _, ...row }: ApiKeysTable, changes: ReturnType<typeof changedColumns>) =>
    read.updateTable('api_keys').set(changes).where(unchanged(row)).returningAll();

  return {
    async get(id) {
      const row = await keyRow(read, id);
      return row && toKey(row);
    },

    async findByHash(hash) {
      const row = await read
        .selectFrom('api_keys')
        .innerJoin('accounts', 'accounts.id', 'api_keys.account_id')
        .where('hash', '=', hash)
        .selectAll('api_keys')
        .select(ACCOUNT_COLUMNS)
        .executeTakeFirst();
      if (!row) return undefined;
      const account = fieldsOf<Account>(ACCOUNT_FIELDS, row, PREFIX);
      return { key: toKey(row), account, hash: row.hash };
    },

    async list({ accountId, ...page }, caller) {
      const { limit } = page;
      const rows = await (isSearch(page) ? report(caller) : read)
        .selectFrom(byIndex('api_keys', accountId === undefined ? 'api_keys_by_creation' : 'api_keys_by_account'))
        .selectAll()
        .$if(accountId !== undefined, (query) => query.where('account_id', '=', accountId ?? ''))
        .where(inPage(page, ['name', 'prefix']))
        .orderBy('created_at_ms', pageOrder(page))
        .orderBy('id', pageOrder(page))
        .$if(limit !== undefined, (query) => query.limit(limit ?? 0))
        .execute();
      return rows.map(toKey);
    },

    async count(accountId, { now, madeSince }) {
      const { count } = await read
        .selectFrom('api_keys')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .where('account_id', '=', accountId)
        .where(({ and, eb, or }) =>
          or([
            eb('created_at_ms', '>=', madeSince),
            and([
              eb('revoked_at_ms', 'is', null),
              or([eb('expires_at_ms', 'is', null), eb('expires_at_ms', '>', now)]),
            ]),
          ]),
        )
        .executeTakeFirstOrThrow();
      return Number(count);
    },

    async create(key, hash, entry) {
      await write([
        read.insertInto('api_keys').values(toRow(key, hash)),
        insertAuditEntry(read, entry),
        ...announceKey(read, key.id),
      ]);
    },

    async createFirst(key, hash, entry) {
      const row = toRow(key, hash);
      const none = not(exists(read.selectFrom('api_keys').select('id')));
      try {
        const written = await writeIf([
          read
            .insertInto('api_keys')
            .columns(Object.keys(row) as (keyof ApiKeysTable)[])
            .expression(read.selectNoFrom(Object.entries(row).map(([name, value]) => val(value).as(name))).where(none)),
          insertAuditEntry(read, entry),
          ...announceKey(read, key.id),
        ]);
        return written !== undefined;
      } catch (error) {
        // Another server has stored the same secret meanwhile.
        if (error instanceof DuplicateError) return false;
        throw error;
      }
    },

    async update(id, changed, entryOf) {
      const changes = changedColumns(changed);
      return changeAudited({
        get: () => keyRow(read, id),
        toStored: toKey,
        changed: Object.keys(changes).length === 0 ? undefined : changed,
        entryOf,
        async write(row, entry) {
          const written = await writeIf(
            [changing(row, changes), insertAuditEntry(read, entry), ...announceKey(read, id)],
            { urgent: true },
          );
          return written?.[0].rows[0];
        },
      });
    },

    replace: (id, planFor) =>
      writeFromStored(
        () => keyRow(read, id),
        async (row) => {
          const { changes, next, entries } = planFor(toKey(row));
          const written = await writeIf([
            changing(row, changedColumns(changes)),
            read.insertInto('api_keys').values(toRow(next.key, next.hash)),
            ...entries.map((entry) => insertAuditEntry(read, entry)),
            ...announceKey(read, next.key.id),
            ...announceKey(read, id),
          ]);
          const changed = written?.[0].rows[0];
          return changed && toKey(changed);
        },
      ),

    /** Neither audited nor announced: nothing is cached of them. */
    async touch(uses) {
      if (uses.length === 0) return;
      await write(
        uses.map(({ id, lastUsedAt }) =>
          read
            .updateTable('api_keys')
            .set({ last_used_at_ms: lastUsedAt })
            .where('id', '=', id)
            .where((where) =>
              where.or([where('last_used_at_ms', 'is', null), where('last_used_at_ms', '<', lastUsedAt)]),
            ),
        ),
      );
    },
  };
}
