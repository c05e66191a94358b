import { type Kysely, sql } from 'kysely';
import type { RevisionRepository, RevisionTopic } from '../../../ports/repositories.ts';
import type { SqlDatabase } from './database.ts';
import type { Tables } from './tables.ts';

/** Belongs in the same transaction as the change it announces. */
export const bumpRevision = (db: Kysely<Tables>, topic: RevisionTopic) =>
  db
    .insertInto('revisions')
    .values({ topic, value: 1 })
    .onConflict((conflict) => conflict.column('topic').doUpdateSet({ value: sql<number>`revisions.value + 1` }));

export function sqlRevisions({ read }: SqlDatabase): RevisionRepository {
  return {
    async current() {
      const revisions: Record<RevisionTopic, number> = { keys: 0, models: 0 };
      for (const { topic, value } of await read.selectFrom('revisions').selectAll().execute()) {
        if (topic in revisions) revisions[topic as RevisionTopic] = value;
      }
      return revisions;
    },
  };
}
