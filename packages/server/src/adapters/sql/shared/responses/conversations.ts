import type { Conversation, ConversationItem } from '@baobab/core/domain/response.ts';
import type { ConversationRepository, NewConversationItems } from '@baobab/core/ports/conversations.ts';
import { type Compilable, sql } from 'kysely';
import { givenRows, type SqlDatabase } from '../database.ts';
import { fitsAlone, storedAmounts } from '../stored-amounts.ts';
import type { ConversationsTable } from '../tables.ts';

/** Positions grow with time; at most this many items can be added in one millisecond. */
const POSITIONS_PER_MS = 1_000;

const toConversation = (row: ConversationsTable): Conversation => ({
  id: row.id,
  accountId: row.account_id,
  metadata: JSON.parse(row.metadata) as Record<string, string>,
  createdAt: row.created_at_ms,
  expiresAt: row.expires_at_ms,
});

const bytesOf = (items: readonly ConversationItem[]): number =>
  items.reduce((sum, { content }) => sum + Buffer.byteLength(content), 0);

/** How many of the first items fit into a page. */
function fittingItems(sizes: readonly number[], limit: number, maxBytes: number): number {
  let bytes = 0;
  const tooMany = sizes.findIndex((size, index) => {
    bytes += size;
    return index >= limit || (index > 0 && bytes > maxBytes);
  });
  return tooMany === -1 ? sizes.length : tooMany;
}

/** Adds items to a conversation, if it is still there. */
export async function appendItems(
  { read, given }: Pick<SqlDatabase, 'read' | 'given'>,
  { conversationId, items, now, expiresAt }: NewConversationItems,
): Promise<{ bytes: number; statements: Compilable[] }> {
  const bytes = bytesOf(items);
  const rows = items.map(({ id, content }, index) => ({
    item_id: id,
    position: now * POSITIONS_PER_MS + index,
    content,
  }));
  const added = given('added', await givenRows({ item_id: 'text', position: 'bigint', content: 'text' }, rows));
  const insert = read
    .insertInto('conversation_items')
    .columns(['conversation_id', 'id', 'position', 'content'])
    .expression((of) =>
      of
        .selectFrom(['conversations', added])
        .select(['conversations.id', 'added.item_id', 'added.position', 'added.content'])
        .where('conversations.id', '=', conversationId),
    )
    .onConflict((conflict) => conflict.columns(['conversation_id', 'id']).doNothing());
  return {
    bytes,
    statements: [
      read
        .updateTable('conversations')
        .set({
          bytes: sql<number>`bytes + ${bytes}`,
          expires_at_ms: sql<number>`case when expires_at_ms < ${expiresAt} then ${expiresAt} else expires_at_ms end`,
        })
        .where('id', '=', conversationId),
      ...(items.length > 0 ? [insert] : []),
    ],
  };
}

export function sqlConversations(database: SqlDatabase): ConversationRepository {
  const { read, write, writeIf } = database;
  const amounts = storedAmounts(read, 'responses');
  const own = (accountId: string, id: string) =>
    read.updateTable('conversations').where('id', '=', id).where('account_id', '=', accountId);

  return {
    async create({ id, accountId, metadata, createdAt, expiresAt }, items, quota) {
      const added = await appendItems(database, { conversationId: id, items, now: createdAt, expiresAt });
      const amount = { items: 1, bytes: added.bytes };
      if (!fitsAlone(amount, quota)) return false;
      const written = await writeIf([
        amounts.add(accountId, amount, quota),
        read.insertInto('conversations').values({
          id,
          account_id: accountId,
          metadata: JSON.stringify(metadata),
          created_at_ms: createdAt,
          expires_at_ms: expiresAt,
          bytes: 0,
        }),
        ...added.statements,
      ]);
      return written !== undefined;
    },

    async get(accountId, id) {
      const row = await read
        .selectFrom('conversations')
        .selectAll()
        .where('id', '=', id)
        .where('account_id', '=', accountId)
        .executeTakeFirst();
      return row && toConversation(row);
    },

    async update(accountId, id, metadata) {
      const [{ changes }] = await write([own(accountId, id).set({ metadata: JSON.stringify(metadata) })]);
      return changes > 0;
    },

    async delete(accountId, id) {
      const written = await writeIf([
        own(accountId, id).set((of) => ({ bytes: of.ref('bytes') })),
        amounts.subtract(accountId, (of) =>
          of.selectFrom('conversations').select('conversations.bytes').where('id', '=', id).$asScalar(),
        ),
        read.deleteFrom('conversation_items').where('conversation_id', '=', id),
        read.deleteFrom('conversations').where('id', '=', id),
      ]);
      return written !== undefined;
    },

    async append(accountId, items, quota) {
      const { bytes, statements } = await appendItems(database, items);
      const amount = { items: 0, bytes };
      if (!fitsAlone(amount, quota)) return false;
      const written = await writeIf(
        [
          // In the order in which a new response locks them.
          amounts.add(accountId, amount, quota),
          own(accountId, items.conversationId).set((of) => ({ bytes: of.ref('bytes') })),
          ...statements,
        ],
        { guards: 2, byRowLocks: true },
      );
      return written !== undefined;
    },

    async items(id, { order, limit, maxBytes, after, wholeOnly = false }) {
      const place = (of: { selectFrom: typeof read.selectFrom }) =>
        of
          .selectFrom('conversation_items as last')
          .select('last.position')
          .where('last.conversation_id', '=', id)
          .where('last.id', '=', after ?? '');
      const page = read
        .selectFrom('conversation_items')
        .where('conversation_id', '=', id)
        .$if(after !== undefined, (query) => query.where('position', order === 'asc' ? '>' : '<', place(read)))
        .orderBy('position', order);
      // Both databases know the size of a text without reading it.
      const sizes = await page
        .select(sql<number>`octet_length(content)`.as('bytes'))
        .limit(limit + 1)
        .execute();
      const fitting = fittingItems(
        sizes.map(({ bytes }) => bytes),
        limit,
        maxBytes,
      );
      const hasMore = fitting < sizes.length;
      if (fitting === 0 || (hasMore && wholeOnly)) return { items: [], hasMore };
      return { items: await page.select(['id', 'content']).limit(fitting).execute(), hasMore };
    },

    item: (id, itemId) =>
      read
        .selectFrom('conversation_items')
        .select(['id', 'content'])
        .where('conversation_id', '=', id)
        .where('id', '=', itemId)
        .executeTakeFirst(),

    async deleteItem(accountId, id, itemId) {
      const row = await read
        .selectFrom('conversation_items')
        .select('content')
        .where('conversation_id', '=', id)
        .where('id', '=', itemId)
        .executeTakeFirst();
      if (row === undefined) return false;
      const bytes = Buffer.byteLength(row.content);
      const written = await writeIf(
        [
          own(accountId, id).set({ bytes: sql<number>`bytes - ${bytes}` }),
          read.deleteFrom('conversation_items').where('conversation_id', '=', id).where('id', '=', itemId),
          amounts.add(accountId, { items: 0, bytes: -bytes }),
        ],
        { guards: 2 },
      );
      return written !== undefined;
    },
  };
}
