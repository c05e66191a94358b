import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { ResponsesService } from '../../../services/responses/responses.ts';
import { commonErrors } from '../../answer/error-answer.ts';
import { itemPage } from '../../answer/page.ts';
import { principalOf } from '../../request/request-record.ts';
import type { Follower } from './follow.ts';
import { DeletedResponse, ItemList, ItemQuery, ResponseObject, ResponseParams, ResponseQuery } from './schema.ts';
import { storedInput, storedResponse } from './stored-items.ts';

const TAGS = ['Responses'];

export interface StoredResponseRouteDependencies {
  responses: ResponsesService;
  follower: Follower;
}

export const storedResponseRoutes: FastifyPluginAsyncTypebox<StoredResponseRouteDependencies> = async (
  server,
  { responses, follower },
) => {
  server.get(
    '/responses/:response_id',
    {
      config: { operation: 'responses.get', documented: { answers: ['text/event-stream'] } },
      schema: {
        summary: 'Retrieve a stored response, or stream it',
        tags: TAGS,
        params: ResponseParams,
        querystring: ResponseQuery,
        response: { 200: ResponseObject, ...commonErrors },
      },
    },
    async (request, reply) => {
      const { response_id: id } = request.params;
      const { stream, starting_after: after } = request.query;
      if (stream) {
        follower.limit(request, reply);
        return follower.follow(request, reply, id, after);
      }
      return storedResponse(await responses.get(principalOf(request).account.id, id));
    },
  );

  server.delete(
    '/responses/:response_id',
    {
      config: { operation: 'responses.delete', isChange: true },
      schema: {
        summary: 'Delete a stored response',
        tags: TAGS,
        params: ResponseParams,
        response: { 200: DeletedResponse, ...commonErrors },
      },
    },
    async (request) => {
      const { response_id: id } = request.params;
      await responses.remove(principalOf(request).account.id, id);
      return { id, object: 'response' as const, deleted: true as const };
    },
  );

  server.post(
    '/responses/:response_id/cancel',
    {
      config: { operation: 'responses.cancel', fieldNames: { id: 'response_id' }, isChange: true },
      schema: {
        summary: 'Cancel a background response',
        tags: TAGS,
        params: ResponseParams,
        response: { 200: ResponseObject, ...commonErrors },
      },
    },
    async (request) => {
      const { id: accountId } = principalOf(request).account;
      const cancelled = await responses.cancel(accountId, request.params.response_id, (response) =>
        JSON.stringify({ ...storedResponse(response), status: 'cancelled' }),
      );
      return storedResponse(cancelled);
    },
  );

  server.get(
    '/responses/:response_id/input_items',
    {
      config: { operation: 'responses.inputItems.list' },
      schema: {
        summary: 'List the input items of a stored response',
        tags: TAGS,
        params: ResponseParams,
        querystring: ItemQuery,
        response: { 200: ItemList, ...commonErrors },
      },
    },
    async (request) => {
      const { limit = 20, order = 'desc', after } = request.query;
      const stored = await responses.get(principalOf(request).account.id, request.params.response_id);
      const input = await storedInput(stored);
      const items = order === 'asc' ? input : input.reverse();
      const start = after === undefined ? 0 : items.findIndex(({ id }) => id === after) + 1;
      return itemPage(items.slice(start, start + limit), start + limit < items.length);
    },
  );
};
