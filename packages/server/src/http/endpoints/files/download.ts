import type { StoredFile } from '@baobab/core/domain/file.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { FilesService } from '../../../services/files/files.ts';
import { sendBody } from '../../answer/streamed-answer.ts';

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
export async function sendContent(files: FilesService, file: StoredFile, request: FastifyRequest, reply: FastifyReply) {
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
