import type { PendingResponse, RecordedEvents, ResponseStatus, StoredResponse } from '@baobab/core/domain/response.ts';
import type { NewConversationItems } from '@baobab/core/ports/conversations.ts';
import type { OwnedResponse } from '@baobab/core/ports/responses.ts';
import { sql } from 'kysely';
import type { SqlDatabase } from '../database.ts';
import { LEASE_OVER } from '../leases.ts';
import type { ResponseEventsTable, ResponsesTable } from '../tables.ts';
import { appendItems } from './conversations.ts';

export const bytesOf = (...texts: readonly (string | undefined)[]): number =>
  texts.reduce((sum, text = '') => sum + Buffer.byteLength(text), 0);

export const toRow = (response: StoredResponse, request: string | undefined): ResponsesTable => ({
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

export const toResponse = (row: ResponsesTable): StoredResponse => ({
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

export const toEventsRow = (id: string, { first, last, content }: RecordedEvents): ResponseEventsTable => ({
  response_id: id,
  first_sequence: first,
  last_sequence: last,
  content,
  bytes: bytesOf(content),
});

export const toPending = (row: ResponsesTable): PendingResponse => ({
  ...toResponse(row),
  request: row.request ?? '',
  attempts: row.attempts,
});

/** Statements that several parts of the repository use. */
export function responseStatements(database: Pick<SqlDatabase, 'read' | 'given'>) {
  const { read } = database;
  const amountsOf = (accountId: string) =>
    read.updateTable('stored_amounts').where('account_id', '=', accountId).where('kind', '=', 'responses');
  const pending = () => read.updateTable('responses').where('request', 'is not', null);

  return {
    amountsOf,
    /** Background responses that have not ended. */
    pending,
    owned: ({ id, ownerId }: OwnedResponse) => pending().where('id', '=', id).where('owner_id', '=', ownerId),

    /** Adds items to the conversation of a response. `bytes` are to be added to the account's amount before. */
    async appendTo(accountId: string, items: NewConversationItems | undefined) {
      if (items === undefined) return { bytes: 0, statements: [] };
      const { bytes, statements } = await appendItems(database, items);
      // Items of a deleted conversation were counted, but not stored.
      const uncount = amountsOf(accountId)
        .set({ bytes: sql<number>`bytes - ${bytes}` })
        .where(({ not, exists, selectFrom }) =>
          not(exists(selectFrom('conversations').select('id').where('id', '=', items.conversationId))),
        );
      return { bytes, statements: [...statements, uncount] };
    },
  };
}
