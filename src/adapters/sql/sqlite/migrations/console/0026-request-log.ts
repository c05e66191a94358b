import { type Kysely, sql } from 'kysely';

/** Requests of the last weeks, also those that failed. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('request_log')
    .addColumn('id', 'text', (column) => column.primaryKey().notNull())
    .addColumn('time_ms', 'bigint', (column) => column.notNull())
    .addColumn('five_minutes', 'integer', (column) => column.notNull())
    .addColumn('account_id', 'text', (column) => column.notNull())
    .addColumn('series_id', 'integer', (column) => column.notNull())
    .addColumn('version', 'text')
    .addColumn('endpoint', 'text', (column) => column.notNull())
    .addColumn('status', 'integer', (column) => column.notNull())
    .addColumn('code', 'text')
    .addColumn('prompt_tokens', 'bigint', (column) => column.notNull())
    .addColumn('completion_tokens', 'bigint', (column) => column.notNull())
    .addColumn('cache_read_tokens', 'bigint', (column) => column.notNull())
    .addColumn('audio_seconds', 'bigint', (column) => column.notNull())
    .addColumn('cost_nano_usd', 'bigint', (column) => column.notNull())
    .addColumn('duration_ms', 'bigint', (column) => column.notNull())
    .addColumn('duration_bin', 'integer', (column) => column.notNull())
    .addColumn('first_token_ms', 'bigint')
    .addColumn('first_token_bin', 'integer')
    .addColumn('replayed', 'integer', (column) => column.notNull())
    .addColumn('attempts', 'text')
    .execute();
  await db.schema
    .createIndex('request_log_by_account')
    .on('request_log')
    .columns(['account_id', 'time_ms', 'id'])
    .execute();
  await db.schema.createIndex('request_log_by_time').on('request_log').columns(['time_ms', 'id']).execute();
  await db.schema
    .createIndex('request_log_failed')
    .on('request_log')
    .columns(['account_id', 'time_ms', 'id'])
    .where(sql<boolean>`status >= 400`)
    .execute();
  // Holds what the report of latencies reads, in the order in which it groups.
  await db.schema
    .createIndex('request_log_latency')
    .on('request_log')
    .columns(['series_id', 'five_minutes', 'status', 'duration_bin', 'first_token_bin'])
    .execute();
}
