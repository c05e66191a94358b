import { type Static, Type } from 'typebox';
import { FILE_PURPOSES, type StoredFile } from '../../domain/file.ts';

export const File = Type.Object({
  id: Type.String(),
  object: Type.Literal('file'),
  purpose: Type.Enum([...FILE_PURPOSES]),
  filename: Type.String(),
  bytes: Type.Integer(),
  created_at: Type.String({ format: 'date-time' }),
  expires_at: Type.String({ format: 'date-time' }),
  status: Type.Literal('processed'),
});

const cursor = Type.Union([Type.String(), Type.Null()]);

export const FileList = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(File),
  first_id: cursor,
  last_id: cursor,
  has_more: Type.Boolean(),
});

export const FileQuery = Type.Object({
  purpose: Type.Optional(Type.String()),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, default: 10_000 })),
  after: Type.Optional(Type.String({ pattern: '^file_[0-9a-z]{1,64}$', description: 'Id of the last file seen' })),
  order: Type.Optional(Type.Enum(['asc', 'desc'], { default: 'desc' })),
});

export const FileParams = Type.Object({ file_id: Type.String() });

export const DeletedFile = Type.Object({
  id: Type.String(),
  object: Type.Literal('file'),
  deleted: Type.Literal(true),
});

export const fileToWire = (file: StoredFile): Static<typeof File> => ({
  id: file.id,
  object: 'file',
  purpose: file.purpose,
  filename: file.filename,
  bytes: file.bytes,
  created_at: new Date(file.createdAt).toISOString(),
  expires_at: new Date(file.expiresAt).toISOString(),
  status: 'processed',
});
