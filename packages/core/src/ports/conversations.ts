import type { Conversation, ConversationItem } from '../domain/response.ts';
import type { Quota } from './quotas.ts';

export interface NewConversationItems {
  conversationId: string;
  items: readonly ConversationItem[];
  /** Milliseconds since 1970. Items are sorted by it, then by their order in the list. */
  now: number;
  /** The conversation is kept at least until then. */
  expiresAt: number;
}

export interface ConversationItemQuery {
  order: 'asc' | 'desc';
  limit: number;
  /** Largest size of the items together. A page has at least one item, however large. */
  maxBytes: number;
  /** The page begins after this item. */
  after?: string | undefined;
  /** Read no items if there are more than fit. */
  wholeOnly?: boolean | undefined;
}

export interface ConversationItemPage {
  items: ConversationItem[];
  hasMore: boolean;
}

/** Conversations count into the quota of stored responses. */
export interface ConversationRepository {
  /** False, and nothing stored, when the account would then have more than its quota. */
  create(conversation: Conversation, items: readonly ConversationItem[], quota: Quota): Promise<boolean>;
  get(accountId: string, id: string): Promise<Conversation | undefined>;
  update(accountId: string, id: string, metadata: Readonly<Record<string, string>>): Promise<boolean>;
  delete(accountId: string, id: string): Promise<boolean>;
  /** False when the conversation is gone or the quota would be passed. An item whose id is there already is left out. */
  append(accountId: string, items: NewConversationItems, quota: Quota): Promise<boolean>;
  items(id: string, query: ConversationItemQuery): Promise<ConversationItemPage>;
  item(id: string, itemId: string): Promise<ConversationItem | undefined>;
  deleteItem(accountId: string, id: string, itemId: string): Promise<boolean>;
}
