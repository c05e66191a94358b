import { parsePurpose } from '@baobab/core/domain/file.ts';
import multipart from '@fastify/multipart';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FilesService } from '../../../services/files/files.ts';
import { commonErrors, ErrorResponse } from '../../answer/error-schema.ts';
import { pageToWire } from '../../answer/page.ts';
import { createDownloadLimit } from '../../request/answer-limit.ts';
import { principalOf } from '../../request/request-record.ts';
import { sendContent } from './download.ts';
import {
  DeletedFile,
  Elsewhere,
  File,
  FileFormFields,
  FileList,
  FileParams,
  FileQuery,
  fileToWire,
  PartialContent,
  RANGE_HEADERS,
  WholeContent,
} from './schema.ts';
import { receiveUpload } from './upload.ts';

const TAGS = ['Files'];

export const fileRoutes: FastifyPluginAsyncTypebox<{ files: FilesService }> = async (server, { files }) => {
  await server.register(multipart);
  const limitDownloads = createDownloadLimit();

  server.post(
    '/files',
    {
      config: { operation: 'files.create', documented: { body: { 'multipart/form-data': FileFormFields } } },
      schema: {
        summary: 'Upload a file: multipart form with the parts `file` and `purpose`',
        tags: TAGS,
        response: { 200: File, ...commonErrors, 413: ErrorResponse, 422: ErrorResponse },
      },
    },
    async (request, reply) => receiveUpload(files, request, reply),
  );

  server.get(
    '/files',
    {
      config: { operation: 'files.list' },
      schema: {
        summary: 'List files',
        tags: TAGS,
        querystring: FileQuery,
        response: { 200: FileList, ...commonErrors },
      },
    },
    async (request) => {
      const { purpose, limit = 10_000, after, order = 'desc' } = request.query;
      const { files: items, hasMore } = await files.list(principalOf(request).account.id, {
        purpose: purpose === undefined ? undefined : parsePurpose(purpose),
        limit,
        after,
        order,
      });
      return pageToWire({ items, hasMore }, fileToWire);
    },
  );

  server.get(
    '/files/:file_id',
    {
      config: { operation: 'files.get' },
      schema: {
        summary: 'Retrieve a file record',
        tags: TAGS,
        params: FileParams,
        response: { 200: File, ...commonErrors },
      },
    },
    async (request) => fileToWire(await files.get(principalOf(request).account.id, request.params.file_id)),
  );

  // Fastify's own HEAD routes would answer a length of 0, or read the whole file.
  server.route({
    method: ['GET', 'HEAD'],
    url: '/files/:file_id/content',
    config: { operation: 'files.content', documented: { headers: RANGE_HEADERS } },
    schema: {
      summary: 'Download the content of a file, or one range of it',
      tags: TAGS,
      params: FileParams,
      response: {
        200: WholeContent,
        206: PartialContent,
        302: Elsewhere,
        ...commonErrors,
        416: ErrorResponse,
        429: ErrorResponse,
      },
    },
    handler: async (request, reply) => {
      const file = await files.get(principalOf(request).account.id, request.params.file_id);
      const link = request.method === 'GET' ? await files.link(file) : undefined;
      if (link !== undefined) return reply.header('cache-control', 'no-store').redirect(link, 302);
      limitDownloads(request, reply);
      return sendContent(files, file, request, reply);
    },
  });

  server.delete(
    '/files/:file_id',
    {
      config: { operation: 'files.delete', isChange: true },
      schema: {
        summary: 'Delete a file',
        tags: TAGS,
        params: FileParams,
        response: { 200: DeletedFile, ...commonErrors },
      },
    },
    async (request) => {
      const { file_id: id } = request.params;
      await files.remove(principalOf(request).account.id, id);
      return { id, object: 'file' as const, deleted: true as const };
    },
  );
};
