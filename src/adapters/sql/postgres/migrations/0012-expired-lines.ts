import type { Kysely } from 'kysely';

/** How many of the failed lines of a batch did not run in time. Of batches that have expired before, it is not known. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .alterTable('batches')
    .addColumn('expired', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute();
}
