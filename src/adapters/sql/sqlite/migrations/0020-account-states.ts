import type { Kysely } from 'kysely';

/** When an account was suspended, deleted, and its content erased. Null: not. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const column of ['suspended_at_ms', 'deleted_at_ms', 'erased_at_ms']) {
    await db.schema.alterTable('accounts').addColumn(column, 'bigint').execute();
  }
}
