import { Type } from 'typebox';
import { listOf, Metadata, pathText } from '../../body/bounded.ts';
import { optional } from '../../body/optional.ts';
import { InputItem, ItemQuery } from '../responses/schema.ts';

/** The limit of the official API. */
const Items = listOf(InputItem, { maxItems: 20 });

export const CreateConversation = Type.Object({
  metadata: optional(Metadata, 'Up to 16 texts of your own'),
  items: optional(Items, 'What was said already'),
});
export const UpdateConversation = Type.Object({ metadata: optional(Metadata, 'Replaces the one before') });
export const CreateItems = Type.Object({ items: { ...Items, description: 'What to add, in order' } });

export const ConversationParams = Type.Object({
  conversation_id: pathText({ description: 'Id of the conversation, `conv_…`' }),
});
export const ItemParams = Type.Object({
  ...ConversationParams.properties,
  item_id: pathText({ description: 'Id of the item' }),
});
export const ConversationItemQuery = Type.Object({
  ...ItemQuery.properties,
  include: Type.Optional(Type.Unknown({ description: 'Accepted and ignored' })),
});

export const ConversationObject = Type.Object({
  id: Type.String(),
  object: Type.Literal('conversation'),
  created_at: Type.Integer({ description: 'Unix time in seconds' }),
  metadata: Metadata,
});
export const DeletedConversation = Type.Object({
  id: Type.String(),
  object: Type.Literal('conversation.deleted'),
  deleted: Type.Literal(true),
});
export const Item = Type.Object({ id: Type.String(), type: Type.String() });
