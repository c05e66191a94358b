import { type Kysely, sql } from 'kysely';

/** Counts the batches of each account that have not ended. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`insert into stored_amounts (account_id, kind, items, bytes)
    select account_id, 'batches', count(*), 0 from batches where ended_at_ms is null group by account_id`.execute(db);
}
