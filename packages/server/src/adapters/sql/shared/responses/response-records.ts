import type { ResponseRecords } from '@baobab/core/ports/responses.ts';
import { type Compilable, sql } from 'kysely';
import { givenRows, type SqlDatabase } from '../database.ts';
import { fitsAlone, storedAmounts } from '../stored-amounts.ts';
import { sqlConversations } from './conversations.ts';
import { responseStatements, toEventsRow, toResponse, toRow } from './response-rows.ts';

export function sqlResponseRecords(database: SqlDatabase): ResponseRecords {
  const { read, writeIf, byIndex, given } = database;
  const amounts = storedAmounts(read, 'responses');
  const conversations = sqlConversations(database);
  const { amountsOf, appendTo } = responseStatements(database);

  /** Changes no row when the account has this many background responses that have not ended. */
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

  const deleteOne = async (accountId: string, id: string): Promise<boolean> => {
    const written = await writeIf(
      [
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
      ],
      { byRowLocks: true },
    );
    return written !== undefined;
  };

  return {
    async create(response, { quota, request, maxActive = 0, ancestors = [], items, events }) {
      const row = toRow(response, request);
      const added = await appendTo(response.accountId, items);
      const amount = { items: 1, bytes: row.bytes + added.bytes };
      if (!fitsAlone(amount, quota)) return false;
      const isLimited = request !== undefined && maxActive > 0;
      const statements: Compilable[] = [
        amounts.add(response.accountId, amount, quota),
        ...(isLimited ? [activeBelow(response.accountId, maxActive)] : []),
        read.insertInto('responses').values(row),
        ...(events ? [read.insertInto('response_events').values(toEventsRow(response.id, events))] : []),
        ...added.statements,
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
      return (await writeIf(statements, { guards: isLimited ? 2 : 1, byRowLocks: true })) !== undefined;
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

    async getAll(accountId, ids, { now, maxBytes }) {
      const rows = await givenRows(
        { id: 'text' },
        ids.map((id) => ({ id })),
      );
      const wanted = given('wanted', rows);
      const kept = read
        .selectFrom('responses')
        .where('account_id', '=', accountId)
        .where('expires_at_ms', '>', now)
        .where('id', 'in', read.selectFrom(wanted).select('wanted.id'));
      const sizes = await kept.select(['id', 'bytes']).execute();
      const found = new Set(sizes.map(({ id }) => id));
      const missing = ids.find((id) => !found.has(id));
      if (missing !== undefined) return { missing };
      if (sizes.reduce((sum, { bytes }) => sum + bytes, 0) > maxBytes) return 'too large';
      return (await kept.selectAll().execute()).map(toResponse);
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
                // Cross: SQLite then looks up each one by its id, and never looks through all of them.
                .selectFrom('chain')
                .crossJoin('responses')
                .whereRef('responses.id', '=', 'chain.previous_id')
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
        .crossJoin('responses')
        .whereRef('responses.id', '=', 'chain.id')
        .selectAll('responses')
        .orderBy('chain.depth', 'desc')
        .execute();
      return rows.map(toResponse);
    },

    delete: deleteOne,

    async deleteExpired(now, limit) {
      const [old, oldConversations] = await Promise.all(
        (['responses', 'conversations'] as const).map((table) =>
          read
            .selectFrom(byIndex(table, `${table}_by_expiry`))
            .select(['id', 'account_id'])
            .where('expires_at_ms', '<=', now)
            .orderBy('expires_at_ms')
            .limit(limit)
            .execute(),
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
  };
}
