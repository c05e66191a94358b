import { type Kysely, sql } from 'kysely';
import { buildIndex } from '../index-builds.ts';

export const concurrently = true;

const PAIRS = [
  ['target_id', 'action'],
  ['actor_id', 'account_id'],
  ['actor_id', 'action'],
  ['account_id', 'action'],
] as const;

/** For two filters at once, each of which may select nearly all entries. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const how = db.isTransaction ? '' : 'concurrently';
  await sql.raw(`drop index ${how} if exists audit_log_by_account_action`).execute(db);
  for (const pair of PAIRS) {
    const name = `audit_log_by_${pair.join('_and_')}`;
    await buildIndex(db, { name, table: 'audit_log', columns: [...pair, 'time_ms', 'id'].join(', ') });
  }
}
