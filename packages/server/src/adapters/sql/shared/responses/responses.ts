import type { ResponseRepository, ResponseStreams } from '@baobab/core/ports/responses.ts';
import type { SqlDatabase } from '../database.ts';
import { sqlBackgroundResponses } from './background-responses.ts';
import { sqlResponseRecords } from './response-records.ts';
import { responseStatements, toEventsRow } from './response-rows.ts';

export const sqlResponses = (database: SqlDatabase): ResponseRepository => ({
  ...sqlResponseRecords(database),
  ...sqlBackgroundResponses(database),
  ...sqlResponseEvents(database),
});

function sqlResponseEvents(database: SqlDatabase): ResponseStreams {
  const { read, writeIf } = database;
  const { owned } = responseStatements(database);

  return {
    async record(response, events) {
      const written = await writeIf([
        owned(response).set((of) => ({ bytes: of.ref('bytes') })),
        read.insertInto('response_events').values(toEventsRow(response.id, events)),
      ]);
      return written !== undefined;
    },

    async events(id, after) {
      const rows = await read
        .selectFrom('response_events')
        .select(['first_sequence', 'last_sequence', 'content'])
        .where('response_id', '=', id)
        .where('last_sequence', '>', after)
        .orderBy('first_sequence')
        .execute();
      return rows.map((row) => ({ first: row.first_sequence, last: row.last_sequence, content: row.content }));
    },

    async lastEvents(ids) {
      if (ids.length === 0) return new Map();
      const rows = await read
        .selectFrom('responses')
        // Not the largest of each group: that would read all events.
        .select((of) => [
          'id',
          of
            .selectFrom('response_events')
            .select('last_sequence')
            .whereRef('response_id', '=', 'responses.id')
            .orderBy('first_sequence', 'desc')
            .limit(1)
            .as('last'),
        ])
        .where('id', 'in', ids)
        .execute();
      return new Map(rows.flatMap(({ id, last }) => (last === null ? [] : [[id, last] as const])));
    },
  };
}
