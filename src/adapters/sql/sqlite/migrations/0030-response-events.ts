import type { Kysely } from 'kysely';

/** Events of background responses that are streamed, so that clients can follow and resume them on every server. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('response_events')
    .addColumn('response_id', 'text', (column) => column.notNull().references('responses.id'))
    .addColumn('first_sequence', 'integer', (column) => column.notNull())
    .addColumn('last_sequence', 'integer', (column) => column.notNull())
    .addColumn('content', 'text', (column) => column.notNull())
    .addColumn('bytes', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('response_events_key', ['response_id', 'first_sequence'])
    .execute();
}
