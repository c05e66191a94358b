import type {
  BackgroundResponses,
  ResponseEnd,
  ResponseRepository,
  ResponseStreams,
} from '@baobab/core/ports/responses.ts';
import { type Compilable, sql } from 'kysely';
import type { SqlDatabase } from '../database.ts';
import { LEASE_OVER, orNone, placeInAccount } from '../leases.ts';
import { sqlResponseRecords } from './response-records.ts';
import { bytesOf, responseStatements, toEventsRow, toPending } from './response-rows.ts';

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

function sqlBackgroundResponses(database: SqlDatabase): BackgroundResponses {
  const { read, write, writeIf } = database;
  const { amountsOf, appendTo, owned, pending } = responseStatements(database);

  /** Ends a response if the guard, which selects its row, finds that it has not ended. */
  async function finish(guard: ReturnType<typeof pending>, id: string, end: ResponseEnd): Promise<boolean> {
    const row = await read
      .selectFrom('responses')
      .select(['account_id', 'input'])
      .where('id', '=', id)
      .executeTakeFirst();
    if (row === undefined) return false;
    const recorded = sql<number>`(select coalesce(sum(bytes), 0) from response_events where response_id = ${id})`;
    const bytes = sql<number>`${bytesOf(row.input, end.content)} + ${recorded}`;
    const added = await appendTo(row.account_id, end.items);
    const statements: Compilable[] = [
      guard.set({
        status: end.status,
        content: end.content,
        owner_id: null,
        lease_until_ms: LEASE_OVER,
        request: null,
      }),
      // The row still has its old size.
      amountsOf(row.account_id).set((of) => ({
        bytes: sql<number>`bytes + ${bytes} + ${added.bytes} - ${of.selectFrom('responses').select('responses.bytes').where('id', '=', id)}`,
      })),
      read.updateTable('responses').set({ bytes }).where('id', '=', id),
      ...added.statements,
    ];
    return (await writeIf(statements, { byRowLocks: true })) !== undefined;
  }

  return {
    async claim({ ownerId, now, leaseUntil, limit, maxPerAccount, holding }) {
      const waiting = read
        .selectFrom('responses as waiting')
        .select(['waiting.id', placeInAccount('responses', holding).as('place')])
        .where('waiting.request', 'is not', null)
        .where('waiting.lease_until_ms', '<=', now)
        .where('waiting.id', 'not in', orNone(holding))
        .as('placed');
      const [{ rows }] = await write([
        read
          .updateTable('responses')
          .set({
            owner_id: ownerId,
            lease_until_ms: leaseUntil,
            status: 'in_progress',
            attempts: sql<number>`attempts + 1`,
          })
          .where('request', 'is not', null)
          .where('lease_until_ms', '<=', now)
          .where('id', 'in', (of) =>
            of
              .selectFrom(waiting)
              .select('placed.id')
              .where('placed.place', '<=', maxPerAccount)
              .orderBy('placed.place')
              .orderBy('placed.id')
              .limit(limit),
          )
          .returningAll(),
      ]);
      return rows.map(toPending);
    },

    async renew(ownerId, ids, leaseUntil) {
      if (ids.length === 0) return new Set();
      const [{ rows }] = await write([
        pending()
          .set({ lease_until_ms: leaseUntil })
          .where('id', 'in', ids)
          .where('owner_id', '=', ownerId)
          .returning('id'),
      ]);
      return new Set(rows.map((row) => row.id));
    },

    async active(ids) {
      if (ids.length === 0) return new Set();
      const rows = await read
        .selectFrom('responses')
        .select('id')
        .where('id', 'in', ids)
        .where('request', 'is not', null)
        .execute();
      return new Set(rows.map((row) => row.id));
    },

    async release(response, { claimableAt, counts }) {
      await write([
        owned(response).set({
          owner_id: null,
          lease_until_ms: claimableAt,
          attempts: counts ? sql<number>`attempts` : sql<number>`attempts - 1`,
        }),
      ]);
    },

    async releaseOthers(ownerId) {
      await write([pending().set({ owner_id: null, lease_until_ms: LEASE_OVER }).where('owner_id', '<>', ownerId)]);
    },

    end: (response, end) => finish(owned(response), response.id, end),

    cancel: (accountId, id, content) =>
      finish(pending().where('id', '=', id).where('account_id', '=', accountId), id, { status: 'cancelled', content }),
  };
}
