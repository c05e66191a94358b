import type { Kysely } from 'kysely';

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('idempotency')
    .addColumn('id', 'text', (column) => column.primaryKey().notNull())
    .addColumn('body_hash', 'text', (column) => column.notNull())
    .addColumn('run_id', 'text', (column) => column.notNull())
    .addColumn('owner_id', 'text', (column) => column.notNull())
    .addColumn('lease_until', 'bigint', (column) => column.notNull())
    .addColumn('expires_at', 'bigint', (column) => column.notNull())
    // Null while the request runs.
    .addColumn('status', 'integer')
    .addColumn('headers', 'text')
    // Null also when the answer lies in the blob store.
    .addColumn('body', 'blob')
    .execute();
  await db.schema.createIndex('idempotency_by_expiry').on('idempotency').column('expires_at').execute();
  await db.schema.createIndex('idempotency_by_owner').on('idempotency').columns(['owner_id', 'status']).execute();
}
