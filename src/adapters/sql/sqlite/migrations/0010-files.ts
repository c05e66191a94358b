import { type Kysely, sql } from 'kysely';

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('files')
    .addColumn('id', 'text', (column) => column.primaryKey().notNull())
    .addColumn('account_id', 'text', (column) => column.notNull().references('accounts.id'))
    .addColumn('purpose', 'text', (column) => column.notNull())
    .addColumn('filename', 'text', (column) => column.notNull())
    .addColumn('bytes', 'bigint', (column) => column.notNull())
    .addColumn('sha256', 'text', (column) => column.notNull())
    .addColumn('blob_key', 'text', (column) => column.notNull().unique())
    .addColumn('created_at_ms', 'bigint', (column) => column.notNull())
    .addColumn('expires_at_ms', 'bigint', (column) => column.notNull())
    // Set: gone for clients, and its bytes go as soon as no job reads them.
    .addColumn('discarded_at_ms', 'bigint')
    .execute();
  const stored = sql<boolean>`discarded_at_ms is null`;
  await db.schema.createIndex('files_by_account').on('files').columns(['account_id', 'id']).where(stored).execute();
  await db.schema
    .createIndex('files_by_purpose')
    .on('files')
    .columns(['account_id', 'purpose', 'id'])
    .where(stored)
    .execute();
  await db.schema.createIndex('files_by_expiry').on('files').columns(['expires_at_ms']).where(stored).execute();
  await db.schema
    .createIndex('files_discarded')
    .on('files')
    .columns(['id'])
    .where(sql<boolean>`discarded_at_ms is not null`)
    .execute();

  await db.schema
    .createTable('file_attachments')
    .addColumn('file_id', 'text', (column) => column.notNull().references('files.id'))
    .addColumn('job_id', 'text', (column) => column.notNull())
    .addColumn('job_kind', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('file_attachments_key', ['file_id', 'job_id'])
    .execute();
  await db.schema.createIndex('file_attachments_by_job').on('file_attachments').columns(['job_id']).execute();
}
