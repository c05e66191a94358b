import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { chunkUsed } from '@baobab/core/runtime/garbage-collection.ts';
import { type TurnShare, turnShares } from '@baobab/core/runtime/turn-shares.ts';
import type { Multipart } from '@fastify/multipart';
import type { FastifyRequest } from 'fastify';
import { principalOf, turnShareOf } from '../request/request-record.ts';

/** A form whose file is read as it arrives; fields may come before or after it. */
export interface UploadForm {
  filename: string;
  /** Ends only when the whole form is complete, so that a broken form is a broken file. */
  content: AsyncIterable<Uint8Array>;
  /** A field, if it has arrived. */
  field(name: string): string | undefined;
  /** Reads and drops the rest of the request, so that a client that is still sending gets its answer. */
  discard(): void;
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
      // Only the parser itself throws errors without a code.
      return malformed(message.replace(/\.$/, ''));
    default:
      return error;
  }
}

/** Passes chunks on as the account has its share of the event loop, and frees those that were used. */
export async function* collecting(source: AsyncIterable<Uint8Array>, share: TurnShare): AsyncGenerator<Uint8Array> {
  for await (const chunk of source) {
    await turnShares.take(share);
    chunkUsed(chunk.length);
    yield chunk;
  }
}

/** Reads the form up to its file named `file`. Throws an error for the client if the form is malformed. */
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
      yield* collecting((file as Extract<Multipart, { type: 'file' }>).file, turnShareOf(principalOf(request)));
    } catch (error) {
      throw formError(error);
    }
    await nextFile();
  }

  return {
    filename: part.filename ?? '',
    content: content(part),
    field: (name) => fields.get(name),
    discard() {
      request.raw.unpipe();
      request.raw.resume();
    },
  };
}
