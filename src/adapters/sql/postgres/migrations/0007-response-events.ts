import { type Kysely, sql } from 'kysely';

const TEXT = sql`text collate "C"`;

/** Events of background responses that are streamed, so that clients can follow and resume them on every server. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('response_events')
    .addColumn('response_id', TEXT, (column) => column.notNull().references('responses.id'))
    .addColumn('first_sequence', 'integer', (column) => column.notNull())
    .addColumn('last_sequence', 'integer', (column) => column.notNull())
    .addColumn('content', TEXT, (column) => column.notNull())
    .addColumn('bytes', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('response_events_key', ['response_id', 'first_sequence'])
    .execute();
}
