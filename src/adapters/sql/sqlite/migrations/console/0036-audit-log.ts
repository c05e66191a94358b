import type { Kysely } from 'kysely';

/** Who changed accounts, keys and models. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('audit_log')
    .addColumn('id', 'text', (column) => column.primaryKey().notNull())
    .addColumn('time_ms', 'bigint', (column) => column.notNull())
    .addColumn('action', 'text', (column) => column.notNull())
    .addColumn('via', 'text', (column) => column.notNull())
    .addColumn('actor_id', 'text', (column) => column.notNull())
    .addColumn('actor_name', 'text')
    .addColumn('actor_account_id', 'text')
    .addColumn('actor_account_name', 'text')
    .addColumn('actor_host', 'text')
    .addColumn('target_kind', 'text', (column) => column.notNull())
    .addColumn('target_id', 'text', (column) => column.notNull())
    .addColumn('target_name', 'text', (column) => column.notNull())
    .addColumn('account_id', 'text')
    .addColumn('account_name', 'text')
    .addColumn('changes', 'text', (column) => column.notNull())
    .addColumn('request_id', 'text')
    .addColumn('address', 'text')
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
