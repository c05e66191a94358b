import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { BatchesService } from '../../../services/batches/batches.ts';
import { commonErrors, ErrorResponse } from '../../answer/error-answer.ts';
import { principalOf } from '../../request/request-record.ts';
import {
  BATCH_FIELDS,
  BatchList,
  BatchObject,
  BatchParams,
  BatchQuery,
  batchToWire,
  CreateBatchRequest,
} from './schema.ts';

const TAGS = ['Batches'];

export const batchRoutes: FastifyPluginAsyncTypebox<{ batches: BatchesService }> = async (server, { batches }) => {
  server.post(
    '/batches',
    {
      config: { operation: 'batches.create', fieldNames: BATCH_FIELDS, isChange: true },
      schema: {
        summary: 'Create a batch: run each line of a file as a request',
        tags: TAGS,
        body: CreateBatchRequest,
        response: { 200: BatchObject, ...commonErrors },
      },
    },
    async (request) => {
      const { input_file_id: inputFileId, endpoint, completion_window: completionWindow } = request.body;
      const { metadata = null, output_expires_after: expiresAfter } = request.body;
      const resultLifetimeMs = expiresAfter ? expiresAfter.seconds * 1000 : undefined;
      const run = request.idempotentRun;
      const command = { inputFileId, endpoint, completionWindow, metadata, resultLifetimeMs, run };
      return batchToWire(await batches.create(principalOf(request), command));
    },
  );

  server.get(
    '/batches',
    {
      config: { operation: 'batches.list' },
      schema: {
        summary: 'List batches, the newest first',
        tags: TAGS,
        querystring: BatchQuery,
        response: { 200: BatchList, ...commonErrors },
      },
    },
    async (request) => {
      const { limit = 20, after } = request.query;
      const page = await batches.list(principalOf(request).account.id, { limit, after });
      const [first, last] = [page.batches[0], page.batches.at(-1)];
      return {
        object: 'list' as const,
        data: page.batches.map(batchToWire),
        ...(first === undefined ? {} : { first_id: first.id }),
        ...(last === undefined ? {} : { last_id: last.id }),
        has_more: page.hasMore,
      };
    },
  );

  server.get(
    '/batches/:batch_id',
    {
      config: { operation: 'batches.get' },
      schema: {
        summary: 'Retrieve a batch',
        tags: TAGS,
        params: BatchParams,
        response: { 200: BatchObject, ...commonErrors },
      },
    },
    async (request) => batchToWire(await batches.get(principalOf(request).account.id, request.params.batch_id)),
  );

  server.post(
    '/batches/:batch_id/cancel',
    {
      config: { operation: 'batches.cancel', isChange: true },
      schema: {
        summary: 'Cancel a batch; finished lines keep their results',
        tags: TAGS,
        params: BatchParams,
        response: { 200: BatchObject, ...commonErrors, 422: ErrorResponse },
      },
    },
    async (request) => batchToWire(await batches.cancel(principalOf(request).account.id, request.params.batch_id)),
  );
};
