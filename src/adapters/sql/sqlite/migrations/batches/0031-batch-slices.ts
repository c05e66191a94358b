import type { Kysely } from 'kysely';

/** Parts of active batches, each claimed by one process. A finished slice is deleted. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('batch_slices')
    .addColumn('batch_id', 'text', (column) => column.notNull().references('batches.id'))
    .addColumn('first_line', 'integer', (column) => column.notNull())
    .addColumn('last_line', 'integer', (column) => column.notNull())
    .addColumn('start', 'integer', (column) => column.notNull())
    .addColumn('bytes', 'integer', (column) => column.notNull())
    .addColumn('owner_id', 'text')
    .addColumn('lease_until_ms', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('batch_slices_key', ['batch_id', 'first_line'])
    .execute();
}
