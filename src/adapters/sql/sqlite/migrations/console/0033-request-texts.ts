import type { Kysely } from 'kysely';

/** Prompts and answers of accounts that keep them with their requests. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .alterTable('accounts')
    .addColumn('store_prompts', 'integer', (column) => column.notNull().defaultTo(0))
    .execute();
  await schema
    .createTable('request_texts')
    .addColumn('request_id', 'text', (column) => column.primaryKey().notNull())
    .addColumn('account_id', 'text', (column) => column.notNull())
    .addColumn('time_ms', 'bigint', (column) => column.notNull())
    .addColumn('prompt', 'text')
    .addColumn('answer', 'text')
    .addColumn('truncated', 'integer', (column) => column.notNull())
    .addColumn('bytes', 'bigint', (column) => column.notNull())
    .execute();
  await schema.createIndex('request_texts_by_time').on('request_texts').column('time_ms').execute();
  await schema.createIndex('request_texts_by_account').on('request_texts').column('account_id').execute();
}
