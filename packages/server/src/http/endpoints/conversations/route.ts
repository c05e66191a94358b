import { checkMetadata } from '@baobab/core/domain/metadata.ts';
import type { Conversation, ConversationItem } from '@baobab/core/domain/response.ts';
import { createId } from '@baobab/core/runtime/ids.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { ConversationsService } from '../../../services/responses/conversations.ts';
import { commonErrors } from '../../answer/error-answer.ts';
import { itemPage } from '../../answer/page.ts';
import { listOf, Metadata, optional, pathText } from '../../body/bounded.ts';
import { principalOf } from '../../request/request-record.ts';
import { messagesOf } from '../responses/input.ts';
import { InputItem, type InputItemBody, ItemList, ItemQuery } from '../responses/schema.ts';
import { contentsOf, itemsToStore, parseStored, type StoredItem } from '../responses/stored-items.ts';

const TAGS = ['Responses'];

const toWire = ({ id, createdAt, metadata }: Conversation) => ({
  id,
  object: 'conversation' as const,
  created_at: Math.floor(createdAt / 1000),
  metadata: { ...metadata },
});

const parse = ({ content }: ConversationItem): Promise<StoredItem> => parseStored(content);

async function toStore(items: readonly InputItemBody[], idPart: string): Promise<ConversationItem[]> {
  // Refuses items that no response could read.
  messagesOf(items);
  return contentsOf(itemsToStore(items, idPart));
}

export const conversationRoutes: FastifyPluginAsyncTypebox<{ conversations: ConversationsService }> = async (
  server,
  { conversations },
) => {
  server.post(
    '/conversations',
    {
      config: { operation: 'conversations.create', isChange: true },
      schema: {
        summary: 'Create a conversation',
        tags: TAGS,
        body: CreateConversation,
        response: { 200: ConversationObject, ...commonErrors },
      },
    },
    async (request) => {
      const { metadata, items } = request.body;
      if (metadata) checkMetadata(metadata);
      const { account } = principalOf(request);
      return toWire(await conversations.create(account, metadata ?? {}, (idPart) => toStore(items ?? [], idPart)));
    },
  );

  server.get(
    '/conversations/:conversation_id',
    {
      config: { operation: 'conversations.get' },
      schema: {
        summary: 'Retrieve a conversation',
        tags: TAGS,
        params: ConversationParams,
        response: { 200: ConversationObject, ...commonErrors },
      },
    },
    async (request) => toWire(await conversations.get(principalOf(request).account.id, request.params.conversation_id)),
  );

  server.post(
    '/conversations/:conversation_id',
    {
      config: { operation: 'conversations.update', isChange: true },
      schema: {
        summary: 'Change the metadata of a conversation',
        tags: TAGS,
        params: ConversationParams,
        body: UpdateConversation,
        response: { 200: ConversationObject, ...commonErrors },
      },
    },
    async (request) => {
      const metadata = request.body.metadata ?? {};
      checkMetadata(metadata);
      const { id } = principalOf(request).account;
      return toWire(await conversations.update(id, request.params.conversation_id, metadata));
    },
  );

  server.delete(
    '/conversations/:conversation_id',
    {
      config: { operation: 'conversations.delete', isChange: true },
      schema: {
        summary: 'Delete a conversation and its items',
        tags: TAGS,
        params: ConversationParams,
        response: { 200: DeletedConversation, ...commonErrors },
      },
    },
    async (request) => {
      const { conversation_id: id } = request.params;
      await conversations.remove(principalOf(request).account.id, id);
      return { id, object: 'conversation.deleted' as const, deleted: true as const };
    },
  );

  server.get(
    '/conversations/:conversation_id/items',
    {
      config: { operation: 'conversations.items.list' },
      schema: {
        summary: 'List the items of a conversation',
        tags: TAGS,
        params: ConversationParams,
        querystring: ConversationItemQuery,
        response: { 200: ItemList, ...commonErrors },
      },
    },
    async (request) => {
      const { limit = 20, order = 'desc', after } = request.query;
      const { id } = principalOf(request).account;
      const { items, hasMore } = await conversations.items(id, request.params.conversation_id, { order, limit, after });
      return itemPage(await Promise.all(items.map(parse)), hasMore);
    },
  );

  server.post(
    '/conversations/:conversation_id/items',
    {
      config: { operation: 'conversations.items.create', isChange: true },
      schema: {
        summary: 'Add items to a conversation',
        tags: TAGS,
        params: ConversationParams,
        body: CreateItems,
        response: { 200: ItemList, ...commonErrors },
      },
    },
    async (request) => {
      const added = await toStore(request.body.items, createId('item').slice('item_'.length));
      await conversations.append(principalOf(request).account, request.params.conversation_id, added);
      return itemPage(await Promise.all(added.map(parse)), false);
    },
  );

  server.get(
    '/conversations/:conversation_id/items/:item_id',
    {
      config: { operation: 'conversations.items.get' },
      schema: {
        summary: 'Retrieve an item of a conversation',
        tags: TAGS,
        params: ItemParams,
        response: { 200: Item, ...commonErrors },
      },
    },
    async (request) => {
      const { conversation_id: id, item_id: itemId } = request.params;
      return parse(await conversations.item(principalOf(request).account.id, id, itemId));
    },
  );

  server.delete(
    '/conversations/:conversation_id/items/:item_id',
    {
      config: { operation: 'conversations.items.delete', isChange: true },
      schema: {
        summary: 'Delete an item of a conversation',
        tags: TAGS,
        params: ItemParams,
        response: { 200: ConversationObject, ...commonErrors },
      },
    },
    async (request) => {
      const { conversation_id: id, item_id: itemId } = request.params;
      return toWire(await conversations.removeItem(principalOf(request).account.id, id, itemId));
    },
  );
};

/** The limit of the official API. */
const Items = listOf(InputItem, { maxItems: 20 });

const CreateConversation = Type.Object({
  metadata: optional(Metadata, 'Up to 16 texts of your own'),
  items: optional(Items, 'What was said already'),
});
const UpdateConversation = Type.Object({ metadata: optional(Metadata, 'Replaces the one before') });
const CreateItems = Type.Object({ items: { ...Items, description: 'What to add, in order' } });

const ConversationParams = Type.Object({
  conversation_id: pathText({ description: 'Id of the conversation, `conv_…`' }),
});
const ItemParams = Type.Object({
  ...ConversationParams.properties,
  item_id: pathText({ description: 'Id of the item' }),
});
const ConversationItemQuery = Type.Object({
  ...ItemQuery.properties,
  include: Type.Optional(Type.Unknown({ description: 'Accepted and ignored' })),
});

const ConversationObject = Type.Object({
  id: Type.String(),
  object: Type.Literal('conversation'),
  created_at: Type.Integer({ description: 'Unix time in seconds' }),
  metadata: Metadata,
});
const DeletedConversation = Type.Object({
  id: Type.String(),
  object: Type.Literal('conversation.deleted'),
  deleted: Type.Literal(true),
});
const Item = Type.Object({ id: Type.String(), type: Type.String() });
