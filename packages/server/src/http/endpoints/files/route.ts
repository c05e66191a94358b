import { LIFETIME_SECONDS, parsePurpose, UPLOAD_PURPOSES } from '@baobab/core/domain/file.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import multipart from '@fastify/multipart';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { FilesService } from '../../../services/files/files.ts';
import { commonErrors, ErrorResponse } from '../../answer/error-schema.ts';
import { pageToWire } from '../../answer/page.ts';
import { openUploadForm } from '../../body/upload-form.ts';
import { createDownloadLimit } from '../../request/answer-limit.ts';
import { forgettingRefusal, hashBody } from '../../request/idempotent-run.ts';
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

const ANCHOR = 'expires_after[anchor]';
const SECONDS = 'expires_after[seconds]';

/** Milliseconds in OpenAI's `expires_after`, which a form sends as two fields. Undefined: there is none. */
function lifetimeOfForm(field: (name: string) => string | undefined): number | undefined {
  if (field('expires_after') !== undefined) {
    // Ignoring it would keep a file longer than its owner wants.
    throw errors.invalidParameter('expires_after', `Send 'expires_after' as two fields, '${ANCHOR}' and '${SECONDS}'.`);
  }
  const [anchor, seconds] = [field(ANCHOR), field(SECONDS)];
  if (anchor === undefined && seconds === undefined) return undefined;
  if (anchor === undefined) throw errors.missingParameter(ANCHOR);
  if (seconds === undefined) throw errors.missingParameter(SECONDS);
  if (anchor !== 'created_at') throw errors.invalidParameter(ANCHOR, `'${ANCHOR}' must be 'created_at'.`);
  const { min, max } = LIFETIME_SECONDS;
  const value = /^\d{1,10}$/.test(seconds) ? Number(seconds) : Number.NaN;
  if (!(value >= min && value <= max)) {
    throw errors.invalidParameter(SECONDS, `'${SECONDS}' must be a whole number from ${min} to ${max}.`);
  }
  return value * 1000;
}

/** Stores the file of a form, once for each idempotency key. */
async function receiveUpload(files: FilesService, request: FastifyRequest, reply: FastifyReply) {
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
    // Forms with the same file differ in their bytes, so their content is compared.
    const meaning = [filename, decided, sha256, lifetimeMs()];
    isReplay = await request.server.replayed(request, reply, { hash: hashBody(JSON.stringify(meaning)) });
  } finally {
    // Also if the key was used with another file before.
    if (isReplay) await received.discard();
  }
  if (isReplay) return reply;
  return fileToWire(await forgettingRefusal(request, () => received.publish(request.idempotentRun)));
}
