import type { Kysely } from 'kysely';

/** When work that one of all processes does is due again. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('job_turns')
    .addColumn('job', 'text', (column) => column.primaryKey().notNull())
    .addColumn('next_at_ms', 'bigint', (column) => column.notNull())
    .execute();
}
