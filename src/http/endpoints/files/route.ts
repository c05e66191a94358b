import multipart from '@fastify/multipart';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { parsePurpose, UPLOAD_PURPOSES } from '../../../domain/file.ts';
import { errors } from '../../../errors/errors.ts';
import type { FilesService } from '../../../services/files/files.ts';
import { commonErrors, ErrorResponse } from '../../answer/error-schema.ts';
import { pageToWire } from '../../answer/page.ts';
import { openUploadForm } from '../../body/upload-form.ts';
import { createDownloadLimit } from '../../request/download-limit.ts';
import { forgettingRefusal, hashBody } from '../../request/idempotent-run.ts';
import { principalOf } from '../../request/request-record.ts';
import { attachmentHeader } from './attachment-header.ts';
import { parseByteRange } from './byte-range.ts';
import { lifetimeOfForm } from './lifetime.ts';
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

const TAGS = ['Files'];

export const fileRoutes: FastifyPluginAsyncTypebox<{ files: FilesService }> = async (server, { files }) => {
  await server.register(multipart);
  const limitDownloads = createDownloadLimit();

  /** Forms with the same file differ in their bytes, so they are compared by their content. */
  const replayedUpload = (request: FastifyRequest, reply: FastifyReply, meaning: string) =>
    server.replayed(request, reply, { hash: hashBody(meaning) });

  server.post(
    '/files',
    {
      config: { scope: 'files', documented: { body: { 'multipart/form-data': FileFormFields } } },
      schema: {
        summary: 'Upload a file: multipart form with the parts `file` and `purpose`',
        tags: TAGS,
        response: { 200: File, ...commonErrors, 413: ErrorResponse, 422: ErrorResponse },
      },
    },
    async (request, reply) => {
      const form = await openUploadForm(request);
      const purpose = (text = form.field('purpose')) => {
        if (text === undefined) throw errors.missingParameter('purpose');
        return parsePurpose(text, UPLOAD_PURPOSES);
      };
      const lifetimeMs = () => lifetimeOfForm(form.field);
      // A purpose that precedes the file is checked before the file is read.
      if (form.field('purpose') !== undefined) purpose();
      const upload = {
        filename: form.filename,
        content: form.content,
        purpose,
        lifetimeMs,
        announcedBytes: Number(request.headers['content-length'] ?? 0),
        isKeyed: request.headers['idempotency-key'] !== undefined,
      };
      const received = await files.receive(principalOf(request).account.id, upload).catch((error) => {
        form.discard();
        throw error;
      });
      const { filename, purpose: decided, sha256 } = received.file;
      let isReplay = true;
      try {
        // Without a lifetime the meaning is that of earlier versions, whose answers may still be stored.
        const lifetime = lifetimeMs();
        const meaning = [filename, decided, sha256, ...(lifetime === undefined ? [] : [lifetime])];
        isReplay = await replayedUpload(request, reply, JSON.stringify(meaning));
      } finally {
        // Also if the key was used with another file before.
        if (isReplay) await received.discard();
      }
      if (isReplay) return reply;
      return fileToWire(await forgettingRefusal(request, () => received.publish(request.idempotentRun)));
    },
  );

  server.get(
    '/files',
    {
      config: { scope: 'files' },
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
      config: { scope: 'files' },
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
    config: { scope: 'files', documented: { headers: RANGE_HEADERS } },
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
      const etag = `"${file.sha256}"`;
      const condition = request.headers['if-range'];
      const wanted = condition === undefined || condition === etag ? request.headers.range : undefined;
      const range = parseByteRange(wanted, file.bytes);
      const describe = () =>
        reply.header('accept-ranges', 'bytes').header('etag', etag).header('cache-control', 'private, no-transform');
      if (range === 'unsatisfiable') {
        describe();
        const message = `The range is outside of the file, which has ${file.bytes} bytes.`;
        reply.header('content-range', `bytes */${file.bytes}`);
        // 416 is HTTP's status for ranges; code and type are from the list of errors.
        return reply.status(416).send(errors.invalidParameter('range', message).toBody() as never);
      }
      // Before the headers of the content are set: an error must not have them.
      const content = request.method === 'HEAD' ? undefined : await files.open(file, range);
      describe()
        .type('application/octet-stream')
        .header('content-disposition', attachmentHeader(file.filename))
        .header('x-content-type-options', 'nosniff')
        .header('content-length', range === undefined ? file.bytes : range.end - range.start + 1);
      if (range !== undefined) {
        reply.status(206).header('content-range', `bytes ${range.start}-${range.end}/${file.bytes}`);
      }
      return reply.send(content as never);
    },
  });

  server.delete(
    '/files/:file_id',
    {
      config: { scope: 'files' },
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
