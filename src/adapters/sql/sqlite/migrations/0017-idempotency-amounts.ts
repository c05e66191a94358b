import type { Kysely } from 'kysely';

/** Counts idempotency records for each account. Records from before are not counted; they expire within a day. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('idempotency')
    .addColumn('account_id', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  await db.schema
    .alterTable('idempotency')
    .addColumn('bytes', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute();
}
