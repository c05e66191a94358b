import { LIFETIME_SECONDS, parsePurpose, type StoredFile, UPLOAD_PURPOSES } from '@baobab/core/domain/file.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import multipart from '@fastify/multipart';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { FilesService } from '../../../services/files/files.ts';
import { commonErrors, ErrorResponse } from '../../answer/error-answer.ts';
import { sendBody } from '../../answer/event-stream.ts';
import { pageToWire } from '../../answer/page.ts';
import { openUploadForm } from '../../body/upload-form.ts';
import { createDownloadLimit } from '../../request/answer-limit.ts';
import { forgettingRefusal, hashBody } from '../../request/idempotent-run.ts';
import { principalOf } from '../../request/request-record.ts';
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
      return pageToWire({ items, hasMore }, (file) => fileToWire(file, request));
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
    async (request) => fileToWire(await files.get(principalOf(request).account.id, request.params.file_id), request),
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
  return fileToWire(await forgettingRefusal(request, () => received.publish(request.idempotentRun)), request);
}

/**
 * Parses a `Range` header. Undefined: send everything, as RFC 9110 allows for malformed ranges, other units and several parts.
 * `unsatisfiable`: the range is outside of the file. `end` is inclusive.
 */
export function parseByteRange(
  header: string | undefined,
  size: number,
): { start: number; end: number } | 'unsatisfiable' | undefined {
  const parts = /^bytes *= *(\d*) *- *(\d*)$/i.exec(header?.trim() ?? '');
  if (parts === null) return undefined;
  const [, first = '', last = ''] = parts;
  if (first === '' && last === '') return undefined;
  if (first === '') {
    const suffix = Number(last);
    if (suffix === 0 || size === 0) return 'unsatisfiable';
    return { start: Math.max(0, size - suffix), end: size - 1 };
  }
  const start = Number(first);
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (last !== '' && Number(last) < start) return undefined;
  return start >= size ? 'unsatisfiable' : { start, end };
}

/** RFC 6266: a plain name for old clients, the real one percent-encoded by RFC 5987. */
export function attachmentHeader(filename: string): string {
  const plain = filename.replace(/[^\x20-\x7e]/g, '_').replace(/["\\%]/g, '_');
  const encoded = encodeURIComponent(filename).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}

/** Sends the content of a file, or the range that the client asks for. */
async function sendContent(files: FilesService, file: StoredFile, request: FastifyRequest, reply: FastifyReply) {
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
    return sendBody(reply.status(416), errors.invalidParameter('range', message).toBody());
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
  return sendBody(reply, content);
}
