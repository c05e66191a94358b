import type { Account } from '@baobab/core/domain/principal.ts';
import type { Conversation, ConversationItem } from '@baobab/core/domain/response.ts';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type {
  ConversationItemPage,
  ConversationItemQuery,
  ConversationRepository,
} from '@baobab/core/ports/conversations.ts';
import { createId } from '@baobab/core/runtime/ids.ts';
import type { AccountTurns } from '../../admission/account-turns.ts';

export interface ConversationsService {
  create(
    account: Account,
    metadata: Readonly<Record<string, string>>,
    items: (idPart: string) => Promise<readonly ConversationItem[]>,
  ): Promise<Conversation>;
  /** Throws 404 for conversations that do not exist, have expired or belong to another account. */
  get(accountId: string, id: string): Promise<Conversation>;
  update(accountId: string, id: string, metadata: Readonly<Record<string, string>>): Promise<Conversation>;
  remove(accountId: string, id: string): Promise<void>;
  append(account: Account, id: string, items: readonly ConversationItem[]): Promise<void>;
  /** One page of its items. */
  items(accountId: string, id: string, query: Omit<ConversationItemQuery, 'maxBytes'>): Promise<ConversationItemPage>;
  /** All items, oldest first. Throws 422 when they are more than any model could read. */
  history(accountId: string, id: string): Promise<ConversationItem[]>;
  item(accountId: string, id: string, itemId: string): Promise<ConversationItem>;
  removeItem(accountId: string, id: string, itemId: string): Promise<Conversation>;
  /** Until when something that is stored now is kept. Files of an account are kept equally long. */
  expiryOf(account: Account, now: number): number;
}

export interface ConversationsDependencies {
  conversations: ConversationRepository;
  settings: { retentionDays: number; quotaBytes: number; quotaResponses: number; maxHistoryBytes: number };
  /** Reads may be large. */
  reads: AccountTurns;
  clock: Clock;
}

/** Items of a conversation that are read at most. Few models can read more. */
const MAX_ITEMS = 10_000;
const MAX_PAGE_BYTES = 8_388_608;

export function createConversations({
  conversations,
  settings,
  reads,
  clock,
}: ConversationsDependencies): ConversationsService {
  const quota = { items: settings.quotaResponses, bytes: settings.quotaBytes };
  const overQuota = () =>
    errors.validationFailed(['items'], 'This account has reached its quota of stored responses. Delete some first.');

  const service: ConversationsService = {
    expiryOf: ({ fileRetentionDays }, now) => now + (fileRetentionDays ?? settings.retentionDays) * DAY_MS,

    async create(account, metadata, items) {
      if (account.zeroRetention) {
        throw errors.validationFailed(undefined, 'This account stores nothing, so it can have no conversations.');
      }
      const now = clock.now();
      const id = createId('conv', now);
      const expiresAt = service.expiryOf(account, now);
      const conversation = { id, accountId: account.id, metadata, createdAt: now, expiresAt };
      const created = await conversations.create(conversation, await items(id.slice('conv_'.length)), quota);
      if (!created) throw overQuota();
      return conversation;
    },

    async get(accountId, id) {
      const conversation = await conversations.get(accountId, id);
      if (conversation === undefined || conversation.expiresAt <= clock.now()) throw errors.conversationNotFound(id);
      return conversation;
    },

    async update(accountId, id, metadata) {
      await service.get(accountId, id);
      await conversations.update(accountId, id, metadata);
      return service.get(accountId, id);
    },

    async remove(accountId, id) {
      await service.get(accountId, id);
      await conversations.delete(accountId, id);
    },

    async append(account, id, items) {
      await service.get(account.id, id);
      const now = clock.now();
      const added = { conversationId: id, items, now, expiresAt: service.expiryOf(account, now) };
      if (!(await conversations.append(account.id, added, quota))) throw overQuota();
    },

    async items(accountId, id, query) {
      await service.get(accountId, id);
      return reads.run(accountId, () => conversations.items(id, { ...query, maxBytes: MAX_PAGE_BYTES }));
    },

    async history(accountId, id) {
      await service.get(accountId, id);
      const { maxHistoryBytes: maxBytes } = settings;
      const all = { order: 'asc' as const, limit: MAX_ITEMS, maxBytes, wholeOnly: true };
      const { items, hasMore } = await reads.run(accountId, () => conversations.items(id, all));
      if (hasMore) throw errors.historyTooLong(['conversation'], maxBytes);
      return items;
    },

    async item(accountId, id, itemId) {
      await service.get(accountId, id);
      const item = await conversations.item(id, itemId);
      if (item === undefined) throw errors.itemNotFound(itemId);
      return item;
    },

    async removeItem(accountId, id, itemId) {
      await service.get(accountId, id);
      if (!(await conversations.deleteItem(accountId, id, itemId))) throw errors.itemNotFound(itemId);
      return service.get(accountId, id);
    },
  };
  return service;
}
