import { type Kysely, sql } from 'kysely';

const TEXT = sql`text collate "C"`;

/** Parts of active batches, each claimed by one process. A finished slice is deleted. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('batch_slices')
    .addColumn('batch_id', TEXT, (column) => column.notNull().references('batches.id'))
    .addColumn('first_line', 'bigint', (column) => column.notNull())
    .addColumn('last_line', 'bigint', (column) => column.notNull())
    .addColumn('start', 'bigint', (column) => column.notNull())
    .addColumn('bytes', 'bigint', (column) => column.notNull())
    .addColumn('owner_id', TEXT)
    .addColumn('lease_until_ms', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('batch_slices_key', ['batch_id', 'first_line'])
    .execute();
}
