import { type Kysely, sql } from 'kysely';

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('batches')
    .addColumn('id', 'text', (column) => column.primaryKey().notNull())
    .addColumn('account_id', 'text', (column) => column.notNull().references('accounts.id'))
    .addColumn('key_id', 'text', (column) => column.notNull())
    .addColumn('endpoint', 'text', (column) => column.notNull())
    .addColumn('input_file_id', 'text', (column) => column.notNull())
    .addColumn('completion_window', 'text', (column) => column.notNull())
    .addColumn('metadata', 'text')
    .addColumn('status', 'text', (column) => column.notNull())
    .addColumn('problems', 'text', (column) => column.notNull())
    .addColumn('output_file_id', 'text')
    .addColumn('error_file_id', 'text')
    .addColumn('total', 'integer', (column) => column.notNull())
    .addColumn('completed', 'integer', (column) => column.notNull())
    .addColumn('failed', 'integer', (column) => column.notNull())
    .addColumn('created_at_ms', 'bigint', (column) => column.notNull())
    .addColumn('expires_at_ms', 'bigint', (column) => column.notNull())
    .addColumn('in_progress_at_ms', 'bigint')
    .addColumn('finalizing_at_ms', 'bigint')
    .addColumn('cancelling_at_ms', 'bigint')
    .addColumn('ended_at_ms', 'bigint')
    .execute();
  await db.schema.createIndex('batches_by_account').on('batches').columns(['account_id', 'id']).execute();
  await db.schema
    .createIndex('batches_active')
    .on('batches')
    .columns(['id'])
    .where(sql<boolean>`ended_at_ms is null`)
    .execute();

  // Only while the batch is active: then its output and error files hold the same.
  await db.schema
    .createTable('batch_lines')
    .addColumn('batch_id', 'text', (column) => column.notNull().references('batches.id'))
    .addColumn('line', 'integer', (column) => column.notNull())
    .addColumn('failed', 'integer', (column) => column.notNull())
    .addColumn('blob_key', 'text', (column) => column.notNull())
    .addColumn('start', 'integer', (column) => column.notNull())
    .addColumn('bytes', 'integer', (column) => column.notNull())
    .addPrimaryKeyConstraint('batch_lines_key', ['batch_id', 'line'])
    .execute();
}
