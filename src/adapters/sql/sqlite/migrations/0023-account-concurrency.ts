import type { Kysely } from 'kysely';

/** Requests of an account that may run at a time. Null: no limit. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('accounts').addColumn('concurrency', 'integer').execute();
}
