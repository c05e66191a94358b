import type { KeyRepository } from '@baobab/core/ports/repositories.ts';
import { DuplicateError } from '@baobab/core/ports/store-errors.ts';
import { expressionBuilder } from 'kysely';
import { insertAuditEntry } from '../audit/audit-log.ts';
import { changeAudited, unchanged, writeFromStored } from '../audit/audited-change.ts';
import type { SqlDatabase } from '../database.ts';
import { announceKey } from '../revisions.ts';
import type { ApiKeysTable, Tables } from '../tables.ts';
import { changedColumns, keyRow, toKey, toRow } from './key-rows.ts';

const { exists, not, val } = expressionBuilder<Tables>();

/** With entries in the audit log, and announced to other servers. */
export type KeyChanges = Pick<KeyRepository, 'create' | 'createFirst' | 'update' | 'replace'>;

export function sqlKeyChanges({ read, write, writeIf }: SqlDatabase): KeyChanges {
  /** Changes the row only if it is as it was read. Uses do not count. */
  const changing = ({ last_used_at_ms: _, ...row }: ApiKeysTable, changes: ReturnType<typeof changedColumns>) =>
    read.updateTable('api_keys').set(changes).where(unchanged(row)).returningAll();

  return {
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
  };
}
