import { MAX_BATCH_BYTES } from '@baobab/core/domain/batch.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { MessageBatchesService } from '../../../services/message-batches/message-batches.ts';
import { sendBody } from '../../answer/event-stream.ts';
import { createDownloadLimit } from '../../request/answer-limit.ts';
import { forgettingRefusal } from '../../request/idempotent-run.ts';
import { principalOf, turnShareOf } from '../../request/request-record.ts';
import { commonMessageErrors, messageErrors } from '../messages/schema.ts';
import { errorToWire } from '../messages/writer.ts';
import { messageBatchToWire, resultsToWire } from './answer.ts';
import { readMessageRequests } from './request.ts';
import {
  CreateMessageBatch,
  DeletedMessageBatch,
  MessageBatchList,
  MessageBatchObject,
  MessageBatchParams,
  MessageBatchQuery,
  MessageBatchResults,
} from './schema.ts';

const TAGS = ['Messages'];
const config = { errorBody: errorToWire };

export interface MessageBatchRouteDependencies {
  messageBatches: MessageBatchesService;
}

/** Anthropic's Message Batches API. */
export const messageBatchRoutes: FastifyPluginAsyncTypebox<MessageBatchRouteDependencies> = async (
  server,
  { messageBatches },
) => {
  const limitDownloads = createDownloadLimit();
  const create: FastifyPluginAsyncTypebox = async (scope) => {
    // The body may be larger than memory should hold: the route reads it as a stream.
    scope.removeContentTypeParser('application/json');
    scope.addContentTypeParser('application/json', (_request, _payload, done) => done(null));

    scope.post(
      '/messages/batches',
      {
        config: {
          ...config,
          operation: 'messages.batches.create',
          readsBody: true,
          documented: { body: { 'application/json': CreateMessageBatch } },
        },
        schema: {
          summary: 'Create a message batch',
          tags: TAGS,
          response: {
            200: MessageBatchObject,
            ...commonMessageErrors,
            413: messageErrors[413],
            422: messageErrors[422],
          },
        },
      },
      async (request, reply) => {
        const principal = principalOf(request);
        const announcedBytes = Number(request.headers['content-length'] ?? 0);
        if (announcedBytes > MAX_BATCH_BYTES) throw errors.bodyTooLarge(MAX_BATCH_BYTES);
        const requests = readMessageRequests(request.raw, turnShareOf(principal));
        const isKeyed = request.headers['idempotency-key'] !== undefined;
        const upload = { content: requests.lines, announcedBytes, isKeyed };
        const received = await messageBatches.receive(principal, upload).catch((error) => {
          // A client that is still sending does not read its answer.
          request.raw.resume();
          throw error;
        });
        let isReplay = true;
        try {
          isReplay = await scope.replayed(request, reply, { hash: received.file.sha256 });
        } finally {
          // Also if the key was used with another body before.
          if (isReplay) await received.discard();
        }
        if (isReplay) return reply;
        const options = { requests: requests.count(), run: request.idempotentRun };
        return messageBatchToWire(
          await forgettingRefusal(request, () => messageBatches.create(principal, received, options)),
        );
      },
    );
  };
  await server.register(create);

  server.get(
    '/messages/batches',
    {
      config: { ...config, operation: 'messages.batches.list' },
      schema: {
        summary: 'List message batches, the newest first',
        tags: TAGS,
        querystring: MessageBatchQuery,
        response: { 200: MessageBatchList, ...commonMessageErrors },
      },
    },
    async (request) => {
      const { limit = 20, after_id: after, before_id: before } = request.query;
      if (after !== undefined && before !== undefined) {
        throw errors.invalidParameter('before_id', "Send 'after_id' or 'before_id', not both.");
      }
      const page = await messageBatches.list(principalOf(request).account, { limit, after, before });
      const data = page.batches.map(messageBatchToWire);
      return { data, has_more: page.hasMore, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
    },
  );

  server.get(
    '/messages/batches/:batch_id',
    {
      config: { ...config, operation: 'messages.batches.get' },
      schema: {
        summary: 'Retrieve a message batch',
        tags: TAGS,
        params: MessageBatchParams,
        response: { 200: MessageBatchObject, ...commonMessageErrors },
      },
    },
    async (request) =>
      messageBatchToWire(await messageBatches.get(principalOf(request).account, request.params.batch_id)),
  );

  server.post(
    '/messages/batches/:batch_id/cancel',
    {
      config: { ...config, operation: 'messages.batches.cancel', isChange: true },
      schema: {
        summary: 'Cancel a message batch; finished requests keep their results',
        tags: TAGS,
        params: MessageBatchParams,
        response: { 200: MessageBatchObject, ...commonMessageErrors, 413: messageErrors[413], 422: messageErrors[422] },
      },
    },
    async (request) =>
      messageBatchToWire(await messageBatches.cancel(principalOf(request).account, request.params.batch_id)),
  );

  server.delete(
    '/messages/batches/:batch_id',
    {
      config: { ...config, operation: 'messages.batches.delete', isChange: true },
      schema: {
        summary: 'Delete a message batch that has ended, with its results',
        tags: TAGS,
        params: MessageBatchParams,
        response: { 200: DeletedMessageBatch, ...commonMessageErrors },
      },
    },
    async (request) => {
      const { batch_id: id } = request.params;
      await messageBatches.remove(principalOf(request).account, id);
      return { id, type: 'message_batch_deleted' as const };
    },
  );

  server.get(
    '/messages/batches/:batch_id/results',
    {
      config: { ...config, operation: 'messages.batches.results' },
      // A HEAD request would read all results.
      exposeHeadRoute: false,
      schema: {
        summary: 'Download the results of a message batch, one line of JSON for each request',
        tags: TAGS,
        params: MessageBatchParams,
        response: { 200: MessageBatchResults, ...commonMessageErrors },
      },
    },
    async (request, reply) => {
      limitDownloads(request, reply);
      const ends = await messageBatches.results(principalOf(request).account, request.params.batch_id);
      return sendBody(reply.type('application/x-jsonl'), resultsToWire(ends));
    },
  );
};
