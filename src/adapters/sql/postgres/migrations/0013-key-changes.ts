import { type Kysely, sql } from 'kysely';

const TEXT = sql`text collate "C"`;

/** What the last revisions of the keys changed. A server of an earlier version leaves its revisions out. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('key_changes')
    .addColumn('revision', 'bigint', (column) => column.primaryKey())
    .addColumn('account_id', TEXT, (column) => column.notNull())
    .addColumn('key_id', TEXT)
    .addColumn('hash', TEXT)
    .execute();
}
