import { type Kysely, sql } from 'kysely';

const TEXT = sql`text collate "C"`;

/** Requests of the last weeks, also those that failed. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('request_log')
    .addColumn('id', TEXT, (column) => column.primaryKey())
    .addColumn('time_ms', 'bigint', (column) => column.notNull())
    .addColumn('five_minutes', 'integer', (column) => column.notNull())
    .addColumn('account_id', TEXT, (column) => column.notNull())
    .addColumn('series_id', 'bigint', (column) => column.notNull())
    .addColumn('version', TEXT)
    .addColumn('endpoint', TEXT, (column) => column.notNull())
    .addColumn('status', 'integer', (column) => column.notNull())
    .addColumn('code', TEXT)
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
    .addColumn('attempts', TEXT)
    .execute();
  await schema
    .createIndex('request_log_by_account')
    .on('request_log')
    .columns(['account_id', 'time_ms', 'id'])
    .execute();
  await schema.createIndex('request_log_by_time').on('request_log').columns(['time_ms', 'id']).execute();
  await schema
    .createIndex('request_log_failed')
    .on('request_log')
    .columns(['account_id', 'time_ms', 'id'])
    .where(sql<boolean>`status >= 400`)
    .execute();
  // Holds what the report of latencies reads, in the order in which it groups.
  await schema
    .createIndex('request_log_latency')
    .on('request_log')
    .columns(['series_id', 'five_minutes', 'status', 'duration_bin', 'first_token_bin'])
    .execute();
}
