import { type ColumnDefinitionBuilder, type Kysely, sql } from 'kysely';

/** Sorted by bytes, as SQLite and JavaScript sort ids. The locale of the server does not matter. */
const TEXT = sql`text collate "C"`;

const required = (column: ColumnDefinitionBuilder) => column.notNull();
const zero = (column: ColumnDefinitionBuilder) => column.notNull().defaultTo(0);
const key = (column: ColumnDefinitionBuilder) => column.primaryKey();
const account = (column: ColumnDefinitionBuilder) => column.notNull().references('accounts.id');

/** Accounts, keys, decisions about model versions, and the counters that tell other processes of a change. */
async function createIdentity({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('accounts')
    .addColumn('id', TEXT, key)
    .addColumn('name', TEXT, (column) => column.notNull().unique())
    .addColumn('created_at_ms', 'bigint', required)
    .addColumn('rpm', 'bigint')
    .addColumn('tpm', 'bigint')
    .addColumn('concurrency', 'bigint')
    .addColumn('monthly_budget_nano_usd', 'bigint')
    .addColumn('suspended_at_ms', 'bigint')
    .addColumn('zero_retention', 'integer', zero)
    .addColumn('file_retention_days', 'bigint')
    .addColumn('aliases', TEXT, (column) => column.notNull().defaultTo('[]'))
    .addColumn('deleted_at_ms', 'bigint')
    .addColumn('erased_at_ms', 'bigint')
    .execute();

  await schema
    .createTable('api_keys')
    .addColumn('id', TEXT, key)
    .addColumn('original_id', TEXT, required)
    .addColumn('account_id', TEXT, account)
    .addColumn('name', TEXT, required)
    .addColumn('prefix', TEXT, required)
    .addColumn('hash', TEXT, (column) => column.notNull().unique())
    .addColumn('scopes', TEXT, required)
    .addColumn('allowed_models', TEXT, required)
    .addColumn('allowed_regions', TEXT, required)
    .addColumn('allowed_addresses', TEXT, (column) => column.notNull().defaultTo('[]'))
    .addColumn('rpm', 'bigint')
    .addColumn('tpm', 'bigint')
    .addColumn('concurrency', 'bigint')
    .addColumn('monthly_budget_nano_usd', 'bigint')
    .addColumn('created_at_ms', 'bigint', required)
    .addColumn('expires_at_ms', 'bigint')
    .addColumn('revoked_at_ms', 'bigint')
    .addColumn('last_used_at_ms', 'bigint')
    .execute();
  await schema.createIndex('api_keys_by_account').on('api_keys').columns(['account_id', 'created_at_ms']).execute();
  await schema.createIndex('api_keys_by_original').on('api_keys').column('original_id').execute();

  await schema
    .createTable('model_lifecycles')
    .addColumn('slug', TEXT, required)
    .addColumn('version', TEXT, required)
    .addColumn('notice_at_ms', 'bigint', required)
    .addColumn('deprecated_at_ms', 'bigint')
    .addColumn('retired_at_ms', 'bigint')
    .addPrimaryKeyConstraint('model_lifecycles_key', ['slug', 'version'])
    .execute();

  await schema.createTable('revisions').addColumn('topic', TEXT, key).addColumn('value', 'bigint', required).execute();
}

async function createLedger({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('ledger_series')
    .addColumn('id', 'bigint', (column) => column.primaryKey().generatedByDefaultAsIdentity())
    .addColumn('account_id', TEXT, required)
    .addColumn('key_id', TEXT, required)
    .addColumn('model', TEXT, required)
    .addColumn('region', TEXT, required)
    .addUniqueConstraint('ledger_series_names', ['account_id', 'key_id', 'model', 'region'])
    .execute();

  await schema
    .createTable('ledger')
    .addColumn('billing_id', TEXT, key)
    .addColumn('request_id', TEXT, required)
    .addColumn('time_ms', 'bigint', required)
    .addColumn('hour', 'integer', required)
    .addColumn('day', 'integer', required)
    .addColumn('month', 'integer', required)
    .addColumn('version', TEXT, required)
    .addColumn('endpoint', TEXT, required)
    .addColumn('prompt_tokens', 'bigint', required)
    .addColumn('completion_tokens', 'bigint', required)
    .addColumn('cache_read_tokens', 'bigint', required)
    .addColumn('audio_seconds', 'bigint', required)
    .addColumn('cost_nano_usd', 'bigint', required)
    .addColumn('pricing', TEXT, required)
    .addColumn('discount_percent', 'integer', required)
    .addColumn('status', 'integer', required)
    .addColumn('duration_ms', 'bigint', required)
    .addColumn('first_token_ms', 'bigint')
    .addColumn('series_id', 'bigint', (column) => column.notNull().references('ledger_series.id'))
    .execute();
  // Holds everything a report reads.
  await schema
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

async function createFiles({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('files')
    .addColumn('id', TEXT, key)
    .addColumn('account_id', TEXT, account)
    .addColumn('purpose', TEXT, required)
    .addColumn('filename', TEXT, required)
    .addColumn('bytes', 'bigint', required)
    .addColumn('sha256', TEXT, required)
    .addColumn('blob_key', TEXT, (column) => column.notNull().unique())
    .addColumn('created_at_ms', 'bigint', required)
    .addColumn('expires_at_ms', 'bigint', required)
    // Set: gone for clients, and its bytes go as soon as no job reads them.
    .addColumn('discarded_at_ms', 'bigint')
    .execute();
  const stored = sql<boolean>`discarded_at_ms is null`;
  const discarded = sql<boolean>`discarded_at_ms is not null`;
  const index = (name: string) => schema.createIndex(name).on('files');
  await index('files_by_account').columns(['account_id', 'id']).where(stored).execute();
  await index('files_by_purpose').columns(['account_id', 'purpose', 'id']).where(stored).execute();
  await index('files_by_expiry').column('expires_at_ms').where(stored).execute();
  await index('files_discarded').column('id').where(discarded).execute();

  await schema
    .createTable('file_attachments')
    .addColumn('file_id', TEXT, (column) => column.notNull().references('files.id'))
    .addColumn('job_id', TEXT, required)
    .addColumn('job_kind', TEXT, required)
    .addColumn('owner_id', TEXT)
    .addColumn('lease_until_ms', 'bigint')
    .addPrimaryKeyConstraint('file_attachments_key', ['file_id', 'job_id'])
    .execute();
  await schema.createIndex('file_attachments_by_job').on('file_attachments').column('job_id').execute();

  await schema
    .createTable('stored_amounts')
    .addColumn('account_id', TEXT, account)
    .addColumn('kind', TEXT, required)
    .addColumn('items', 'bigint', required)
    .addColumn('bytes', 'bigint', required)
    .addPrimaryKeyConstraint('stored_amounts_key', ['account_id', 'kind'])
    .execute();
}

async function createIdempotency({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('idempotency')
    .addColumn('id', TEXT, key)
    .addColumn('account_id', TEXT, (column) => column.notNull().defaultTo(''))
    .addColumn('body_hash', TEXT, required)
    .addColumn('run_id', TEXT, required)
    .addColumn('owner_id', TEXT, required)
    .addColumn('lease_until_ms', 'bigint', required)
    .addColumn('expires_at_ms', 'bigint', required)
    .addColumn('status', 'integer')
    .addColumn('headers', TEXT)
    .addColumn('body', 'bytea')
    .addColumn('bytes', 'bigint', zero)
    .execute();
  await schema.createIndex('idempotency_by_expiry').on('idempotency').column('expires_at_ms').execute();
  await schema.createIndex('idempotency_by_owner').on('idempotency').columns(['owner_id', 'status']).execute();
}

async function createBatches({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('batches')
    .addColumn('id', TEXT, key)
    .addColumn('account_id', TEXT, account)
    .addColumn('key_id', TEXT, required)
    .addColumn('endpoint', TEXT, required)
    .addColumn('input_file_id', TEXT, required)
    .addColumn('completion_window', TEXT, required)
    .addColumn('metadata', TEXT)
    .addColumn('status', TEXT, required)
    .addColumn('problems', TEXT, required)
    .addColumn('output_file_id', TEXT)
    .addColumn('error_file_id', TEXT)
    .addColumn('total', 'bigint', required)
    .addColumn('completed', 'bigint', required)
    .addColumn('failed', 'bigint', required)
    .addColumn('created_at_ms', 'bigint', required)
    .addColumn('expires_at_ms', 'bigint', required)
    .addColumn('in_progress_at_ms', 'bigint')
    .addColumn('finalizing_at_ms', 'bigint')
    .addColumn('cancelling_at_ms', 'bigint')
    .addColumn('ended_at_ms', 'bigint')
    .addColumn('owner_id', TEXT)
    .addColumn('lease_until_ms', 'bigint', zero)
    .execute();
  await schema.createIndex('batches_by_account').on('batches').columns(['account_id', 'id']).execute();
  await schema
    .createIndex('batches_active')
    .on('batches')
    .columns(['account_id', 'id', 'lease_until_ms'])
    .where(sql<boolean>`ended_at_ms is null`)
    .execute();

  await schema
    .createTable('batch_lines')
    .addColumn('batch_id', TEXT, (column) => column.notNull().references('batches.id'))
    .addColumn('line', 'bigint', required)
    .addColumn('failed', 'integer', required)
    .addColumn('blob_key', TEXT, required)
    .addColumn('start', 'bigint', required)
    .addColumn('bytes', 'bigint', required)
    .addPrimaryKeyConstraint('batch_lines_key', ['batch_id', 'line'])
    .execute();
}

/** The tables that SQLite has after its migrations up to 0024. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createIdentity(db);
  await createLedger(db);
  await createFiles(db);
  await createIdempotency(db);
  await createBatches(db);
}
