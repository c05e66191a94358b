import type { KeyChange, RevisionRepository, RevisionTopic } from '@baobab/core/ports/repositories.ts';
import { type Kysely, sql } from 'kysely';
import type { SqlDatabase } from './database.ts';
import type { Tables } from './tables.ts';

const MAX_CHANGES = 1_000;

/** Belongs in the same transaction as the change it announces. */
export const bumpRevision = (db: Kysely<Tables>, topic: RevisionTopic) =>
  db
    .insertInto('revisions')
    .values({ topic, value: 1 })
    .onConflict((conflict) => conflict.column('topic').doUpdateSet({ value: sql<number>`revisions.value + 1` }));

const keysRevision = (db: Kysely<Tables>) => db.selectFrom('revisions').where('topic', '=', 'keys');

/**
 * Belong after a change of keys, in its transaction. The revision is locked from the bump to the commit, so a
 * reader that sees a revision sees the changes up to it.
 */
const announce = <Change>(db: Kysely<Tables>, change: Change) =>
  [
    bumpRevision(db, 'keys'),
    change,
    db
      .deleteFrom('key_changes')
      .where('revision', '<=', keysRevision(db).select(sql<number>`value - ${sql.lit(MAX_CHANGES)}`.as('oldest'))),
  ] as const;

export const announceKey = (db: Kysely<Tables>, id: string) =>
  announce(
    db,
    db
      .insertInto('key_changes')
      .columns(['revision', 'account_id', 'key_id', 'hash'])
      .expression(
        keysRevision(db)
          .innerJoin('api_keys', (join) => join.onTrue())
          .where('api_keys.id', '=', id)
          .select(['value', 'account_id', 'api_keys.id', 'hash']),
      ),
  );

export const announceAccount = (db: Kysely<Tables>, id: string) =>
  announce(
    db,
    db
      .insertInto('key_changes')
      .columns(['revision', 'account_id'])
      .expression(
        keysRevision(db)
          .innerJoin('accounts', (join) => join.onTrue())
          .where('accounts.id', '=', id)
          .select(['value', 'accounts.id']),
      ),
  );

export function sqlRevisions({ read }: SqlDatabase): RevisionRepository {
  return {
    async current() {
      const revisions: Record<RevisionTopic, number> = { keys: 0, models: 0 };
      for (const { topic, value } of await read.selectFrom('revisions').selectAll().execute()) {
        if (topic in revisions) revisions[topic as RevisionTopic] = value;
      }
      return revisions;
    },
    async keyChanges(after, upTo) {
      const count = upTo - after;
      if (count < 0 || count > MAX_CHANGES) return undefined;
      const rows = await read
        .selectFrom('key_changes')
        .selectAll()
        .where('revision', '>', after)
        .where('revision', '<=', upTo)
        .orderBy('revision')
        .execute();
      if (rows.length !== count) return undefined;
      return rows.map(
        ({ account_id, key_id, hash }): KeyChange =>
          key_id === null ? { accountId: account_id } : { keyId: key_id, hash: hash ?? undefined },
      );
    },
  };
}
