import { type Kysely, sql } from 'kysely';

const TEXT = sql`text collate "C"`;

/** Who changed accounts, keys and models. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('audit_log')
    .addColumn('id', TEXT, (column) => column.primaryKey())
    .addColumn('time_ms', 'bigint', (column) => column.notNull())
    .addColumn('action', TEXT, (column) => column.notNull())
    .addColumn('via', TEXT, (column) => column.notNull())
    .addColumn('actor_id', TEXT, (column) => column.notNull())
    .addColumn('actor_name', TEXT)
    .addColumn('actor_account_id', TEXT)
    .addColumn('actor_account_name', TEXT)
    .addColumn('actor_host', TEXT)
    .addColumn('target_kind', TEXT, (column) => column.notNull())
    .addColumn('target_id', TEXT, (column) => column.notNull())
    .addColumn('target_name', TEXT, (column) => column.notNull())
    .addColumn('account_id', TEXT)
    .addColumn('account_name', TEXT)
    .addColumn('changes', TEXT, (column) => column.notNull())
    .addColumn('request_id', TEXT)
    .addColumn('address', TEXT)
    .execute();
  await schema.createIndex('audit_log_by_time').on('audit_log').columns(['time_ms', 'id']).execute();
  for (const column of ['account_id', 'actor_id', 'target_id', 'action']) {
    await schema.createIndex(`audit_log_by_${column}`).on('audit_log').columns([column, 'time_ms', 'id']).execute();
  }
  await schema
    .createIndex('audit_log_by_account_action')
    .on('audit_log')
    .columns(['account_id', 'action', 'time_ms', 'id'])
    .execute();
}
