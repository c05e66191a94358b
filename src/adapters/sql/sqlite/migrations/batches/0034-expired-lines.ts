import type { Kysely } from 'kysely';

/** How many of the failed lines of a batch did not run in time. Of batches that have expired before, it is not known. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('batches')
    .addColumn('expired', 'integer', (column) => column.notNull().defaultTo(0))
    .execute();
}
