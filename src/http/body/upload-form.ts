import type { Multipart } from '@fastify/multipart';
import type { FastifyRequest } from 'fastify';
import { ApiError } from '../../errors/api-error.ts';
import { errors } from '../../errors/errors.ts';
import { sweptUp } from '../young-garbage.ts';

/** A form of which the file is read as it comes; fields may stand before or behind it. */
export interface UploadForm {
  filename: string;
  /** Ends when the whole form has ended well, so that a broken form is a broken file. */
  content: AsyncIterable<Uint8Array>;
  /** A field that has come so far. */
  field(name: string): string | undefined;
}

const LIMITS = { fileSize: Number.POSITIVE_INFINITY, files: 1, fields: 100, fieldSize: 65_536, parts: 101 };

const malformed = (detail: string) => errors.invalidParameter(undefined, `The multipart form is not valid: ${detail}.`);

export function formError(error: unknown): unknown {
  if (error instanceof ApiError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  switch (code) {
    case 'FST_FILES_LIMIT':
      return malformed('it has more than one file');
    case 'FST_FIELDS_LIMIT':
    case 'FST_PARTS_LIMIT':
      return malformed(`it has more than ${LIMITS.fields} fields`);
    case 'FST_INVALID_MULTIPART_CONTENT_TYPE':
      return errors.invalidParameter(undefined, 'Send the file as multipart/form-data.');
    case 'FST_PREMATURE_CLOSE':
    case 'ECONNRESET':
    case 'ERR_STREAM_PREMATURE_CLOSE':
      return errors.clientCancelled();
    case undefined:
    case 'FST_PROTO_VIOLATION':
    case 'FST_INVALID_JSON_FIELD_ERROR':
      // Only the parser itself throws errors without a code; they speak of the form.
      return malformed(message.replace(/\.$/, ''));
    default:
      return error;
  }
}

/** Reads the form up to its file named `file`. Every failure of the form itself is thrown as an error for the client. */
export async function openUploadForm(request: FastifyRequest): Promise<UploadForm> {
  const fields = new Map<string, string>();
  let parts: AsyncIterator<Multipart>;
  try {
    parts = request.parts({ limits: LIMITS })[Symbol.asyncIterator]();
  } catch (error) {
    throw formError(error);
  }

  async function nextFile(): Promise<Extract<Multipart, { type: 'file' }> | undefined> {
    try {
      for (let part = await parts.next(); !part.done; part = await parts.next()) {
        const { value } = part;
        if (value.type === 'file') return value;
        if (value.valueTruncated) throw malformed(`the field '${value.fieldname}' is too long`);
        fields.set(value.fieldname, String(value.value));
      }
      return undefined;
    } catch (error) {
      throw formError(error);
    }
  }

  const part = await nextFile();
  if (part === undefined) {
    if (fields.has('file')) throw errors.invalidParameter('file', "'file' must be sent as a file, with a file name.");
    throw errors.missingParameter('file');
  }
  if (part.fieldname !== 'file') {
    part.file.resume();
    throw errors.missingParameter('file');
  }

  async function* content(file: typeof part): AsyncGenerator<Uint8Array> {
    try {
      yield* sweptUp((file as Extract<Multipart, { type: 'file' }>).file);
    } catch (error) {
      throw formError(error);
    }
    await nextFile();
  }

  return { filename: part.filename ?? '', content: content(part), field: (name) => fields.get(name) };
}
