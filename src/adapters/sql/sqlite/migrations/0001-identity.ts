import type { Kysely } from 'kysely';

/** Accounts, keys, decisions about model versions, and the counters that tell other processes of a change. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('accounts')
    .addColumn('id', 'text', (column) => column.primaryKey().notNull())
    .addColumn('name', 'text', (column) => column.notNull().unique())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('rpm', 'integer')
    .addColumn('tpm', 'integer')
    .addColumn('monthly_budget_nano_usd', 'bigint')
    .execute();

  await db.schema
    .createTable('api_keys')
    .addColumn('id', 'text', (column) => column.primaryKey().notNull())
    .addColumn('account_id', 'text', (column) => column.notNull().references('accounts.id'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('prefix', 'text', (column) => column.notNull())
    .addColumn('hash', 'text', (column) => column.notNull().unique())
    .addColumn('scopes', 'text', (column) => column.notNull())
    .addColumn('allowed_models', 'text', (column) => column.notNull())
    .addColumn('allowed_regions', 'text', (column) => column.notNull())
    .addColumn('rpm', 'integer')
    .addColumn('tpm', 'integer')
    .addColumn('concurrency', 'integer')
    .addColumn('monthly_budget_nano_usd', 'bigint')
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('expires_at', 'text')
    .addColumn('revoked_at', 'text')
    .addColumn('last_used_at', 'text')
    .execute();
  await db.schema.createIndex('api_keys_by_account').on('api_keys').columns(['account_id', 'created_at']).execute();

  await db.schema
    .createTable('model_lifecycles')
    .addColumn('slug', 'text', (column) => column.notNull())
    .addColumn('version', 'text', (column) => column.notNull())
    .addColumn('notice_at', 'text', (column) => column.notNull())
    .addColumn('deprecated_at', 'text')
    .addColumn('retired_at', 'text')
    .addPrimaryKeyConstraint('model_lifecycles_key', ['slug', 'version'])
    .execute();

  await db.schema
    .createTable('revisions')
    .addColumn('topic', 'text', (column) => column.primaryKey().notNull())
    .addColumn('value', 'bigint', (column) => column.notNull())
    .execute();
}
