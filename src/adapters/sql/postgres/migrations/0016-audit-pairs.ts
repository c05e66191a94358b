import type { Kysely } from 'kysely';

const PAIRS = [
  ['target_id', 'action'],
  ['actor_id', 'account_id'],
  ['actor_id', 'action'],
  ['account_id', 'action'],
] as const;

/** For two filters at once, each of which may select nearly all entries. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema.dropIndex('audit_log_by_account_action').ifExists().execute();
  for (const pair of PAIRS) {
    await schema
      .createIndex(`audit_log_by_${pair.join('_and_')}`)
      .on('audit_log')
      .columns([...pair, 'time_ms', 'id'])
      .execute();
  }
}
