import type { Kysely } from 'kysely';

/** The addresses that a key may be used from, as JSON. Empty: any. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('api_keys')
    .addColumn('allowed_addresses', 'text', (column) => column.notNull().defaultTo('[]'))
    .execute();
}
