import type { Kysely } from 'kysely';

/** What the last revisions of the keys changed. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('key_changes')
    .addColumn('revision', 'integer', (column) => column.primaryKey().notNull())
    .addColumn('account_id', 'text', (column) => column.notNull())
    .addColumn('key_id', 'text')
    .addColumn('hash', 'text')
    .execute();
}
