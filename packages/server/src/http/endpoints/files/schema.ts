import { FILE_PURPOSES, LIFETIME_SECONDS, type StoredFile, UPLOAD_PURPOSES } from '@baobab/core/domain/file.ts';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { patternInWords } from '../../../validation/expectation.ts';
import { dialectRules } from '../../answer/dialect.ts';
import { pageOf } from '../../answer/page.ts';
import { pathText, shortText } from '../../body/bounded.ts';

const time = Type.Union([
  Type.String({ format: 'date-time' }),
  Type.Integer({ description: 'Unix seconds, in the dialect `openai`' }),
]);

export const File = Type.Object({
  id: Type.String(),
  object: Type.Literal('file'),
  purpose: Type.Enum([...FILE_PURPOSES]),
  filename: Type.String(),
  bytes: Type.Integer(),
  created_at: time,
  expires_at: time,
  status: Type.Literal('processed'),
});

/** OpenAI's policy for the end of a file. */
export const ExpiresAfter = Type.Object({
  anchor: Type.Literal('created_at', { description: 'What the lifetime is counted from' }),
  seconds: Type.Integer({
    minimum: LIFETIME_SECONDS.min,
    maximum: LIFETIME_SECONDS.max,
    description: 'Lifetime of the file. A shorter retention of the account applies all the same',
  }),
});

/** The form, for the document; the route reads it as a stream. */
export const FileFormFields = Type.Object(
  {
    file: Type.String({ format: 'binary', description: 'The content, with a file name' }),
    purpose: Type.Enum([...UPLOAD_PURPOSES], { description: '`transcription` for audio, `batch` for JSONL' }),
    'expires_after[anchor]': Type.Optional(ExpiresAfter.properties.anchor),
    'expires_after[seconds]': Type.Optional(ExpiresAfter.properties.seconds),
  },
  {
    documented: {
      dependentRequired: {
        'expires_after[anchor]': ['expires_after[seconds]'],
        'expires_after[seconds]': ['expires_after[anchor]'],
      },
    },
  },
);

export const FileList = pageOf(File);

export const FileQuery = Type.Object({
  purpose: Type.Optional(
    shortText({
      description: 'Only files of this purpose; without it, all but those of message batches',
      documented: { enum: FILE_PURPOSES },
    }),
  ),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 10_000, default: 10_000, description: 'Files in one answer' }),
  ),
  after: Type.Optional(
    Type.String({
      ...patternInWords('^file_[0-9a-z]{1,64}$', 'the id of a file such as file_abc123'),
      description: 'Id of the last file seen',
    }),
  ),
  order: Type.Optional(Type.Enum(['asc', 'desc'], { default: 'desc', description: 'By time of upload' })),
});

export const FileParams = Type.Object({ file_id: pathText({ description: 'Id of the file, `file_…`' }) });

export const DeletedFile = Type.Object({
  id: Type.String(),
  object: Type.Literal('file'),
  deleted: Type.Literal(true),
});

const bytes = { 'application/octet-stream': { schema: Type.String({ format: 'binary' }) } };
const header = (description: string) => ({ type: 'string', description });
const contentHeaders = {
  ETag: header('SHA-256 of the whole file, in quotes'),
  'Content-Disposition': header('Name of the file'),
};

export const WholeContent = { description: 'The whole file', headers: contentHeaders, content: bytes };
/** With `blobs_presigned_downloads`. */
export const Elsewhere = {
  description: 'The file is downloaded from another address',
  headers: { Location: header('Valid for five minutes') },
  content: bytes,
};
export const PartialContent = {
  description: 'The range that was asked for',
  headers: { ...contentHeaders, 'Content-Range': header('Which bytes these are, and of how many') },
  content: bytes,
};

/** The head of a request is limited as a whole. */
const sent = (description: string) => ({ ...header(description), maxLength: 16_384 });

export const RANGE_HEADERS = {
  Range: sent('One range of bytes, such as `bytes=0-1023`'),
  'If-Range': sent('An `ETag`: the range only if the file is still this one, the whole file otherwise'),
};

export const fileToWire = (file: StoredFile, request: FastifyRequest): Static<typeof File> => ({
  id: file.id,
  object: 'file',
  purpose: file.purpose,
  filename: file.filename,
  bytes: file.bytes,
  created_at: dialectRules(request.record.principal).time(file.createdAt),
  expires_at: dialectRules(request.record.principal).time(file.expiresAt),
  status: 'processed',
});
