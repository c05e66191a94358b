import type { Kysely } from 'kysely';

/** People who signed in to the console. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('sessions')
    .addColumn('hash', 'text', (column) => column.primaryKey().notNull())
    .addColumn('key_id', 'text', (column) => column.notNull())
    .addColumn('created_at_ms', 'bigint', (column) => column.notNull())
    .addColumn('expires_at_ms', 'bigint', (column) => column.notNull())
    .execute();
  await db.schema.createIndex('sessions_by_key').on('sessions').columns(['key_id', 'created_at_ms']).execute();
  await db.schema.createIndex('sessions_by_expiry').on('sessions').column('expires_at_ms').execute();
}
