import type { Kysely } from 'kysely';

/** How long the results of a batch are kept, where its creator has said so. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('batches').addColumn('result_lifetime_ms', 'integer').execute();
}
