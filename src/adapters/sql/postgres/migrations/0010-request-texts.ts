import { type Kysely, sql } from 'kysely';

const TEXT = sql`text collate "C"`;

/** Prompts and answers of accounts that keep them with their requests. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .alterTable('accounts')
    .addColumn('store_prompts', 'integer', (column) => column.notNull().defaultTo(0))
    .execute();
  await schema
    .createTable('request_texts')
    .addColumn('request_id', TEXT, (column) => column.primaryKey())
    .addColumn('account_id', TEXT, (column) => column.notNull())
    .addColumn('time_ms', 'bigint', (column) => column.notNull())
    .addColumn('prompt', TEXT)
    .addColumn('answer', TEXT)
    .addColumn('truncated', 'integer', (column) => column.notNull())
    .addColumn('bytes', 'bigint', (column) => column.notNull())
    .execute();
  await schema.createIndex('request_texts_by_time').on('request_texts').column('time_ms').execute();
  await schema.createIndex('request_texts_by_account').on('request_texts').column('account_id').execute();
}
