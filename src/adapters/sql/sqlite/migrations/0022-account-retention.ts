import type { Kysely } from 'kysely';

/** What is kept of an account's requests, and for how long. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('accounts')
    .addColumn('zero_retention', 'integer', (column) => column.notNull().defaultTo(0))
    .execute();
  await db.schema.alterTable('accounts').addColumn('file_retention_days', 'integer').execute();
}
