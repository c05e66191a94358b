import type { Kysely } from 'kysely';

export async function up(db: Kysely<unknown>): Promise<void> {
  // What reports group by. The ledger holds only its number, so that a million rows stay small and fast to compare.
  await db.schema
    .createTable('ledger_series')
    .addColumn('id', 'integer', (column) => column.primaryKey().notNull())
    .addColumn('account_id', 'text', (column) => column.notNull())
    .addColumn('key_id', 'text', (column) => column.notNull())
    .addColumn('model', 'text', (column) => column.notNull())
    .addColumn('region', 'text', (column) => column.notNull())
    .addUniqueConstraint('ledger_series_names', ['account_id', 'key_id', 'model', 'region'])
    .execute();

  await db.schema
    .createTable('ledger')
    .addColumn('billing_id', 'text', (column) => column.notNull().unique())
    .addColumn('request_id', 'text', (column) => column.notNull())
    .addColumn('time_ms', 'bigint', (column) => column.notNull())
    // These three follow from the time; stored, because a report groups by them in the order of an index.
    .addColumn('hour', 'integer', (column) => column.notNull())
    .addColumn('day', 'integer', (column) => column.notNull())
    .addColumn('month', 'integer', (column) => column.notNull())
    .addColumn('version', 'text', (column) => column.notNull())
    .addColumn('endpoint', 'text', (column) => column.notNull())
    .addColumn('prompt_tokens', 'bigint', (column) => column.notNull())
    .addColumn('completion_tokens', 'bigint', (column) => column.notNull())
    .addColumn('cache_read_tokens', 'bigint', (column) => column.notNull())
    .addColumn('audio_seconds', 'bigint', (column) => column.notNull())
    .addColumn('cost_nano_usd', 'bigint', (column) => column.notNull())
    .addColumn('pricing', 'text', (column) => column.notNull())
    .addColumn('discount_percent', 'integer', (column) => column.notNull())
    .addColumn('status', 'integer', (column) => column.notNull())
    .addColumn('duration_ms', 'bigint', (column) => column.notNull())
    .addColumn('first_token_ms', 'bigint')
    .addColumn('series_id', 'integer', (column) => column.notNull().references('ledger_series.id'))
    .execute();

  // Holds everything a report reads, in the order in which it groups: no table access and no sorting of single rows.
  await db.schema
    .createIndex('ledger_usage')
    .on('ledger')
    .columns([
      'series_id',
      'day',
      'month',
      'hour',
      'time_ms',
      'prompt_tokens',
      'completion_tokens',
      'cache_read_tokens',
      'audio_seconds',
      'cost_nano_usd',
    ])
    .execute();
}
