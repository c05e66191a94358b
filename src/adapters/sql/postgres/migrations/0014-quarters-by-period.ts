import type { Kysely } from 'kysely';
import { buildIndex } from '../index-builds.ts';

export const concurrently = true;

/**
 * Days of time zones with half and quarter hours need a few quarters of an hour of each day, which are beside each other in the table.
 * SQLite seeks them in the primary key.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await buildIndex(db, { name: 'usage_quarters_by_period', table: 'usage_quarters', columns: 'period' });
}
