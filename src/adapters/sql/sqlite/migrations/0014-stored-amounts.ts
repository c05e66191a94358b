import { type Kysely, sql } from 'kysely';

/** How much each account stores, so that a quota is checked without counting rows. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('stored_amounts')
    .addColumn('account_id', 'text', (column) => column.notNull().references('accounts.id'))
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('items', 'bigint', (column) => column.notNull())
    .addColumn('bytes', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('stored_amounts_key', ['account_id', 'kind'])
    .execute();
  await sql`insert into stored_amounts (account_id, kind, items, bytes)
    select account_id, 'files', count(*), sum(bytes) from files where discarded_at_ms is null group by account_id`.execute(
    db,
  );
}
