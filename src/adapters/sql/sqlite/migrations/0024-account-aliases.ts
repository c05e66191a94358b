import type { Kysely } from 'kysely';

/** Other names of models, for the keys of one account. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('accounts')
    .addColumn('aliases', 'text', (column) => column.notNull().defaultTo('[]'))
    .execute();
}
