import { type Kysely, sql } from 'kysely';

/** When work that one of all processes does is due again. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('job_turns')
    .addColumn('job', sql`text collate "C"`, (column) => column.primaryKey())
    .addColumn('next_at_ms', 'bigint', (column) => column.notNull())
    .execute();
}
