import { type Kysely, sql } from 'kysely';

/** Lets the report of latencies read the requests of an account hour by hour, in the order in which it groups them. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('request_log')
    .addColumn('hour', 'integer', (column) => column.notNull().defaultTo(0))
    .execute();
  await sql`update request_log set hour = five_minutes / 12`.execute(db);
  await db.schema.dropIndex('request_log_latency').execute();
  await db.schema
    .createIndex('request_log_durations')
    .on('request_log')
    .columns(['account_id', 'hour', 'status', 'duration_bin', 'five_minutes', 'series_id'])
    .execute();
  await db.schema
    .createIndex('request_log_first_tokens')
    .on('request_log')
    .columns(['account_id', 'hour', 'first_token_bin', 'five_minutes', 'series_id'])
    .where(sql<boolean>`first_token_bin is not null`)
    .execute();
}
