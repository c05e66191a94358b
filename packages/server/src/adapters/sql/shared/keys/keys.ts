import type { KeyRepository } from '@baobab/core/ports/repositories.ts';
import type { SqlDatabase } from '../database.ts';
import { sqlKeyChanges } from './key-changes.ts';
import { sqlKeyLookups } from './key-lookups.ts';

export const sqlKeys = (database: SqlDatabase): KeyRepository => ({
  ...sqlKeyLookups(database),
  ...sqlKeyChanges(database),
  ...sqlKeyUses(database),
});

/** Neither audited nor announced: nothing is cached of them. */
const sqlKeyUses = ({ read, write }: SqlDatabase): Pick<KeyRepository, 'touch'> => ({
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
});
