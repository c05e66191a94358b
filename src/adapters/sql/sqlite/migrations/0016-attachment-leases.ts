import { type Kysely, sql } from 'kysely';

/** A request that reads a file holds it under a lease of its process. A batch holds its input without one. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('file_attachments').addColumn('owner_id', 'text').execute();
  await db.schema.alterTable('file_attachments').addColumn('lease_until_ms', 'bigint').execute();
  // The requests of an earlier version have ended.
  await sql`delete from file_attachments where job_kind = 'transcription'`.execute(db);
}
