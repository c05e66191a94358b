import type { Kysely } from 'kysely';
import { buildIndex } from '../index-builds.ts';

export const concurrently = true;

/** First columns, and what is added to the time behind them (see `shared/audit/audit-log.ts`). */
const INDEXES: readonly [columns: readonly string[], shift: number][] = [
  [[], 0],
  [['target_id', 'action'], 1],
  [['target_id'], 2],
  [['actor_id', 'account_id', 'action'], 3],
  [['actor_id', 'account_id'], 4],
  [['actor_id', 'action'], 5],
  [['actor_id'], 6],
  [['account_id', 'action'], 7],
  [['account_id'], 8],
  [['action'], 9],
];

/** One index for each set of filters, and no other that serves it. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const [columns, shift] of INDEXES) {
    const name = `audit_log_by_${columns.length === 0 ? 'time' : columns.join('_and_')}`;
    const parts = [...columns, `((time_ms + ${shift}))`, 'id'];
    await buildIndex(db, { name, table: 'audit_log', columns: parts.join(', ') });
  }
}
