import { type Kysely, sql } from 'kysely';

const TEXT = sql`text collate "C"`;

/** Stored responses, and conversations that responses continue. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('responses')
    .addColumn('id', TEXT, (column) => column.primaryKey())
    .addColumn('account_id', TEXT, (column) => column.notNull().references('accounts.id'))
    .addColumn('key_id', TEXT, (column) => column.notNull())
    .addColumn('previous_id', TEXT)
    .addColumn('conversation_id', TEXT)
    .addColumn('status', TEXT, (column) => column.notNull())
    .addColumn('background', 'integer', (column) => column.notNull())
    .addColumn('created_at_ms', 'bigint', (column) => column.notNull())
    .addColumn('expires_at_ms', 'bigint', (column) => column.notNull())
    .addColumn('input', TEXT, (column) => column.notNull())
    .addColumn('content', TEXT, (column) => column.notNull())
    .addColumn('bytes', 'bigint', (column) => column.notNull())
    .addColumn('request', TEXT)
    .addColumn('attempts', 'integer', (column) => column.notNull())
    .addColumn('owner_id', TEXT)
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
    .addColumn('id', TEXT, (column) => column.primaryKey())
    .addColumn('account_id', TEXT, (column) => column.notNull().references('accounts.id'))
    .addColumn('metadata', TEXT, (column) => column.notNull())
    .addColumn('created_at_ms', 'bigint', (column) => column.notNull())
    .addColumn('expires_at_ms', 'bigint', (column) => column.notNull())
    .addColumn('bytes', 'bigint', (column) => column.notNull())
    .execute();
  await schema.createIndex('conversations_by_account').on('conversations').columns(['account_id', 'id']).execute();
  await schema.createIndex('conversations_by_expiry').on('conversations').column('expires_at_ms').execute();

  await schema
    .createTable('conversation_items')
    .addColumn('conversation_id', TEXT, (column) => column.notNull().references('conversations.id'))
    .addColumn('id', TEXT, (column) => column.notNull())
    .addColumn('position', 'bigint', (column) => column.notNull())
    .addColumn('content', TEXT, (column) => column.notNull())
    .addPrimaryKeyConstraint('conversation_items_key', ['conversation_id', 'id'])
    .execute();
  await schema
    .createIndex('conversation_items_in_order')
    .on('conversation_items')
    .columns(['conversation_id', 'position'])
    .execute();
}
