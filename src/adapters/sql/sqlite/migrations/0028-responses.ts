import { type Kysely, sql } from 'kysely';

/** Stored responses, and conversations that responses continue. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('responses')
    .addColumn('id', 'text', (column) => column.primaryKey().notNull())
    .addColumn('account_id', 'text', (column) => column.notNull().references('accounts.id'))
    .addColumn('key_id', 'text', (column) => column.notNull())
    .addColumn('previous_id', 'text')
    .addColumn('conversation_id', 'text')
    .addColumn('status', 'text', (column) => column.notNull())
    .addColumn('background', 'integer', (column) => column.notNull())
    .addColumn('created_at_ms', 'bigint', (column) => column.notNull())
    .addColumn('expires_at_ms', 'bigint', (column) => column.notNull())
    .addColumn('input', 'text', (column) => column.notNull())
    .addColumn('content', 'text', (column) => column.notNull())
    .addColumn('bytes', 'bigint', (column) => column.notNull())
    .addColumn('request', 'text')
    .addColumn('attempts', 'integer', (column) => column.notNull())
    .addColumn('owner_id', 'text')
    .addColumn('lease_until_ms', 'bigint', (column) => column.notNull())
    .execute();
  await schema.createIndex('responses_by_account').on('responses').columns(['account_id', 'id']).execute();
  await schema.createIndex('responses_by_expiry').on('responses').column('expires_at_ms').execute();
  await schema
    .createIndex('responses_active')
    .on('responses')
    .columns(['id', 'lease_until_ms'])
    .where(sql<boolean>`request is not null`)
    .execute();

  await schema
    .createTable('conversations')
    .addColumn('id', 'text', (column) => column.primaryKey().notNull())
    .addColumn('account_id', 'text', (column) => column.notNull().references('accounts.id'))
    .addColumn('metadata', 'text', (column) => column.notNull())
    .addColumn('created_at_ms', 'bigint', (column) => column.notNull())
    .addColumn('expires_at_ms', 'bigint', (column) => column.notNull())
    .addColumn('bytes', 'bigint', (column) => column.notNull())
    .execute();
  await schema.createIndex('conversations_by_account').on('conversations').columns(['account_id', 'id']).execute();
  await schema.createIndex('conversations_by_expiry').on('conversations').column('expires_at_ms').execute();

  await schema
    .createTable('conversation_items')
    .addColumn('conversation_id', 'text', (column) => column.notNull().references('conversations.id'))
    .addColumn('id', 'text', (column) => column.notNull())
    .addColumn('position', 'bigint', (column) => column.notNull())
    .addColumn('content', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('conversation_items_key', ['conversation_id', 'id'])
    .execute();
  await schema
    .createIndex('conversation_items_in_order')
    .on('conversation_items')
    .columns(['conversation_id', 'position'])
    .execute();
}
