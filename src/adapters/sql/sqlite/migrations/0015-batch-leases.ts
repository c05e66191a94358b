import { type Kysely, sql } from 'kysely';

/** A batch is claimed by a process before it is worked on. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('batches').addColumn('owner_id', 'text').execute();
  await db.schema
    .alterTable('batches')
    .addColumn('lease_until_ms', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute();
  await db.schema.dropIndex('batches_active').execute();
  // Holds all that a search for work reads.
  await db.schema
    .createIndex('batches_active')
    .on('batches')
    .columns(['account_id', 'id', 'lease_until_ms'])
    .where(sql<boolean>`ended_at_ms is null`)
    .execute();
}
