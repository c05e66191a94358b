import type { StoredFile } from '@baobab/core/domain/file.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { FilesService } from '../../../services/files/files.ts';
import { sendBody } from '../../answer/streamed-answer.ts';
import { attachmentHeader } from './attachment-header.ts';
import { parseByteRange } from './byte-range.ts';

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
