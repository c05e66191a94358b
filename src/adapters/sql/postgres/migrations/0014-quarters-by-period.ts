import type { Kysely } from 'kysely';

/**
 * Days of time zones with half and quarter hours need a few quarters of an hour of each day, which are beside each other in the table.
 * SQLite seeks them in the primary key.
 */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema.createIndex('usage_quarters_by_period').on('usage_quarters').column('period').execute();
}
