import { type Kysely, sql } from 'kysely';

/** Keys that replaced each other by rotation have the same original key, which limits and budgets count under. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('api_keys')
    .addColumn('original_id', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  await sql`update api_keys set original_id = id`.execute(db);
  await db.schema.createIndex('api_keys_by_original').on('api_keys').column('original_id').execute();
}
