import { type Compilable, sql } from 'kysely';
import type { PendingResponse, RecordedEvents, ResponseStatus, StoredResponse } from '../../../domain/response.ts';
import type { OwnedResponse, ResponseEnd, ResponseRepository } from '../../../ports/responses.ts';
import { appendItems, sqlConversations } from './conversations.ts';
import type { SqlDatabase } from './database.ts';
import { fitsAlone, storedAmounts } from './stored-amounts.ts';
import type { ResponseEventsTable, ResponsesTable } from './tables.ts';

/** A time before every other, so that the response can be claimed at once. */
const LEASE_OVER = 0;

const bytesOf = (...texts: readonly (string | undefined)[]): number =>
  texts.reduce((sum, text = '') => sum + Buffer.byteLength(text), 0);

const toRow = (response: StoredResponse, request: string | undefined): ResponsesTable => ({
  id: response.id,
  account_id: response.accountId,
  key_id: response.keyId,
  previous_id: response.previousId,
  conversation_id: response.conversationId,
  status: response.status,
  background: response.background ? 1 : 0,
  created_at_ms: response.createdAt,
  expires_at_ms: response.expiresAt,
  input: response.input,
  content: response.content,
  bytes: bytesOf(response.input, response.content, request),
  request: request ?? null,
  attempts: 0,
  owner_id: null,
  lease_until_ms: LEASE_OVER,
});

const toResponse = (row: ResponsesTable): StoredResponse => ({
  id: row.id,
  accountId: row.account_id,
  keyId: row.key_id,
  previousId: row.previous_id,
  conversationId: row.conversation_id,
  status: row.status as ResponseStatus,
  background: row.background === 1,
  createdAt: row.created_at_ms,
  expiresAt: row.expires_at_ms,
  input: row.input,
  content: row.content,
});

const toEventsRow = (id: string, { first, last, content }: RecordedEvents): ResponseEventsTable => ({
  response_id: id,
  first_sequence: first,
  last_sequence: last,
  content,
  bytes: bytesOf(content),
});

const toPending = (row: ResponsesTable): PendingResponse => ({
  ...toResponse(row),
  request: row.request ?? '',
  attempts: row.attempts,
});

export function sqlResponses(database: SqlDatabase): ResponseRepository {
  const { read, write, writeIf } = database;
  const amounts = storedAmounts(read, 'responses');
  const conversations = sqlConversations(database);
  const pending = () => read.updateTable('responses').where('request', 'is not', null);
  const owned = ({ id, ownerId }: OwnedResponse) => pending().where('id', '=', id).where('owner_id', '=', ownerId);

  const amountsOf = (accountId: string) =>
    read.updateTable('stored_amounts').where('account_id', '=', accountId).where('kind', '=', 'responses');

  /** Items of a conversation that is gone were counted, but not stored. */
  const uncountLostItems = (accountId: string, conversationId: string, bytes: number) =>
    amountsOf(accountId)
      .set({ bytes: sql<number>`bytes - ${bytes}` })
      .where(({ not, exists, selectFrom }) =>
        not(exists(selectFrom('conversations').select('id').where('id', '=', conversationId))),
      );

  /** Changes no row when so many background responses of the account have not ended. */
  const activeBelow = (accountId: string, limit: number) =>
    amountsOf(accountId)
      .set((of) => ({ items: of.ref('items') }))
      .where(
        ({ selectFrom }) =>
          selectFrom('responses')
            .select(({ fn }) => fn.countAll<number>().as('active'))
            .where('responses.account_id', '=', accountId)
            .where('responses.request', 'is not', null),
        '<',
        limit,
      );

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
    const added = end.items && appendItems(read, end.items);
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
        bytes: sql<number>`bytes + ${bytes} + ${added?.bytes ?? 0} - ${of.selectFrom('responses').select('responses.bytes').where('id', '=', id)}`,
      })),
      read.updateTable('responses').set({ bytes }).where('id', '=', id),
      ...(added?.statements ?? []),
      ...(end.items && added ? [uncountLostItems(row.account_id, end.items.conversationId, added.bytes)] : []),
    ];
    return (await writeIf(statements)) !== undefined;
  }

  const deleteOne = async (accountId: string, id: string): Promise<boolean> => {
    const written = await writeIf([
      read
        .updateTable('responses')
        .set((of) => ({ bytes: of.ref('bytes') }))
        .where('id', '=', id)
        .where('account_id', '=', accountId),
      amounts.subtract(accountId, (of) =>
        of.selectFrom('responses').select('responses.bytes').where('id', '=', id).$asScalar(),
      ),
      read.deleteFrom('response_events').where('response_id', '=', id),
      read.deleteFrom('responses').where('id', '=', id),
    ]);
    return written !== undefined;
  };

  return {
    async create(response, { quota, request, maxActive = 0, ancestors = [], items, events }) {
      const row = toRow(response, request);
      const added = items && appendItems(read, items);
      const amount = { items: 1, bytes: row.bytes + (added?.bytes ?? 0) };
      if (!fitsAlone(amount, quota)) return false;
      const isLimited = request !== undefined && maxActive > 0;
      const statements: Compilable[] = [
        amounts.add(response.accountId, amount, quota),
        ...(isLimited ? [activeBelow(response.accountId, maxActive)] : []),
        read.insertInto('responses').values(row),
        ...(events ? [read.insertInto('response_events').values(toEventsRow(response.id, events))] : []),
        ...(added?.statements ?? []),
        ...(items && added ? [uncountLostItems(response.accountId, items.conversationId, added.bytes)] : []),
      ];
      if (ancestors.length > 0) {
        statements.push(
          read
            .updateTable('responses')
            .set({ expires_at_ms: response.expiresAt })
            .where('id', 'in', ancestors)
            .where('account_id', '=', response.accountId)
            .where('expires_at_ms', '<', response.expiresAt),
        );
      }
      return (await writeIf(statements, { guards: isLimited ? 2 : 1 })) !== undefined;
    },

    stored: amounts.get,

    async countActive(accountId) {
      const { active } = await read
        .selectFrom('responses')
        .select(({ fn }) => fn.countAll<number>().as('active'))
        .where('account_id', '=', accountId)
        .where('request', 'is not', null)
        .executeTakeFirstOrThrow();
      return Number(active);
    },

    async get(accountId, id) {
      const row = await read
        .selectFrom('responses')
        .selectAll()
        .where('id', '=', id)
        .where('account_id', '=', accountId)
        .executeTakeFirst();
      return row && toResponse(row);
    },

    async chain(accountId, id, limits) {
      const rows = await read
        .withRecursive('chain(id, previous_id, depth, total)', (db) =>
          db
            .selectFrom('responses')
            .select(['responses.id', 'responses.previous_id', sql<number>`1`.as('depth'), 'responses.bytes as total'])
            .where('responses.id', '=', id)
            .where('responses.account_id', '=', accountId)
            .unionAll(
              db
                .selectFrom('responses')
                .innerJoin('chain', 'chain.previous_id', 'responses.id')
                .select([
                  'responses.id',
                  'responses.previous_id',
                  sql<number>`chain.depth + 1`.as('depth'),
                  sql<number>`chain.total + responses.bytes`.as('total'),
                ])
                .where('responses.account_id', '=', accountId)
                .where('chain.depth', '<', limits.responses)
                .where(sql<number>`chain.total + responses.bytes`, '<=', limits.bytes),
            ),
        )
        .selectFrom('chain')
        .innerJoin('responses', 'responses.id', 'chain.id')
        .selectAll('responses')
        .orderBy('chain.depth', 'desc')
        .execute();
      return rows.map(toResponse);
    },

    delete: deleteOne,

    async deleteExpired(now, limit) {
      const [old, oldConversations] = await Promise.all(
        (['responses', 'conversations'] as const).map((table) =>
          read.selectFrom(table).select(['id', 'account_id']).where('expires_at_ms', '<=', now).limit(limit).execute(),
        ),
      );
      const deleted = await Promise.all([
        ...(old ?? []).map(({ account_id: accountId, id }) => deleteOne(accountId, id)),
        ...(oldConversations ?? []).map(({ account_id: accountId, id }) => conversations.delete(accountId, id)),
      ]);
      return deleted.filter(Boolean).length;
    },

    async deleteOfAccount(accountId, limit) {
      const idsIn = (table: 'responses' | 'conversations') =>
        read.selectFrom(table).select('id').where('account_id', '=', accountId).limit(limit).execute();
      const deleted = await Promise.all([
        ...(await idsIn('responses')).map(({ id }) => deleteOne(accountId, id)),
        ...(await idsIn('conversations')).map(({ id }) => conversations.delete(accountId, id)),
      ]);
      return deleted.filter(Boolean).length;
    },

    async claim({ ownerId, now, leaseUntil, limit, maxPerAccount, holding }) {
      // A list may not be empty in SQL.
      const held = holding.length === 0 ? [''] : holding;
      const waiting = read
        .selectFrom('responses as waiting')
        .select([
          'waiting.id',
          // Which one of its account it would be in this process.
          sql<number>`row_number() over (partition by account_id order by id) + (
            select count(*) from responses as own where own.account_id = waiting.account_id and own.id in (${sql.join(held)})
          )`.as('place'),
        ])
        .where('waiting.request', 'is not', null)
        .where('waiting.lease_until_ms', '<=', now)
        .where('waiting.id', 'not in', held)
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

    async lastEvent(id) {
      const row = await read
        .selectFrom('response_events')
        .select('last_sequence')
        .where('response_id', '=', id)
        .orderBy('first_sequence', 'desc')
        .limit(1)
        .executeTakeFirst();
      return row?.last_sequence;
    },

    end: (response, end) => finish(owned(response), response.id, end),

    cancel: (accountId, id, content) =>
      finish(pending().where('id', '=', id).where('account_id', '=', accountId), id, { status: 'cancelled', content }),
  };
}
