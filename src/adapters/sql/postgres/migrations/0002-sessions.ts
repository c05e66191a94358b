import { type Kysely, sql } from 'kysely';

const TEXT = sql`text collate "C"`;

/** People who signed in to the console. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('sessions')
    .addColumn('hash', TEXT, (column) => column.primaryKey())
    .addColumn('key_id', TEXT, (column) => column.notNull())
    .addColumn('created_at_ms', 'bigint', (column) => column.notNull())
    .addColumn('expires_at_ms', 'bigint', (column) => column.notNull())
    .execute();
  await schema.createIndex('sessions_by_key').on('sessions').columns(['key_id', 'created_at_ms']).execute();
  await schema.createIndex('sessions_by_expiry').on('sessions').column('expires_at_ms').execute();
}
