import type { ModelLifecycleRepository } from '@baobab/core/ports/repositories.ts';
import { insertAuditEntry } from './audit/audit-log.ts';
import type { SqlDatabase } from './database.ts';
import { bumpRevision } from './revisions.ts';

export function sqlModelLifecycles({ read, write }: SqlDatabase): ModelLifecycleRepository {
  return {
    async list() {
      const rows = await read.selectFrom('model_lifecycles').selectAll().orderBy('slug').orderBy('version').execute();
      return rows.map((row) => ({
        slug: row.slug,
        version: row.version,
        noticeAt: row.notice_at_ms,
        deprecatedAt: row.deprecated_at_ms,
        retiredAt: row.retired_at_ms,
      }));
    },
    async save(lifecycle, entry) {
      const changes = {
        notice_at_ms: lifecycle.noticeAt,
        deprecated_at_ms: lifecycle.deprecatedAt,
        retired_at_ms: lifecycle.retiredAt,
      };
      await write([
        read
          .insertInto('model_lifecycles')
          .values({ slug: lifecycle.slug, version: lifecycle.version, ...changes })
          .onConflict((conflict) => conflict.columns(['slug', 'version']).doUpdateSet(changes)),
        insertAuditEntry(read, entry),
        bumpRevision(read, 'models'),
      ]);
    },
  };
}
