import type { Readable } from 'node:stream';
import { MESSAGE_BATCH, type StoredFile } from '@baobab/core/domain/file.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Field } from '@baobab/core/errors/fields.ts';
import type { ByteRange } from '@baobab/core/ports/blobs.ts';
import type { FileQuery } from '@baobab/core/ports/files.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import type { FileRetention } from './file-retention.ts';
import { createFileUploads, type FileUploads, type FileUploadsDependencies } from './file-uploads.ts';

export interface FilePage {
  files: StoredFile[];
  hasMore: boolean;
}

export interface FilesService extends FileUploads {
  /** Throws 404 for files that do not exist or belong to another account. `field` is where the client named the file. */
  get(accountId: string, id: string, field?: Field): Promise<StoredFile>;
  /** Those of message batches only if the query names their purpose. */
  list(accountId: string, query: Omit<FileQuery, 'except'>): Promise<FilePage>;
  open(file: StoredFile, range?: ByteRange): Promise<Readable>;
  /** Where clients can download it without this server; undefined when they cannot. */
  link(file: StoredFile): Promise<string | undefined>;
  /** The file is gone for clients when this resolves. Its content is removed when no job reads it. */
  remove(accountId: string, id: string): Promise<void>;
  /** Keeps the content until `detach`, even when the file is deleted or expires. Throws 404 when it is gone. */
  attach(file: StoredFile, jobId: string): Promise<void>;
  detach(jobId: string): Promise<void>;
  /** Extends the leases of the files that this process has attached. */
  renewLeases(leaseUntil: number): Promise<void>;
  /** Detaches files that other owners had attached. */
  releaseOthers(): Promise<void>;
}

export interface FilesDependencies extends FileUploadsDependencies {
  retention: Pick<FileRetention, 'removeDiscarded'>;
  /** Owns the attachments. */
  identity: Pick<ProcessIdentity, 'ownerId' | 'leaseMs'>;
}

export function createFiles(dependencies: FilesDependencies): FilesService {
  const { files, blobs, retention, identity, clock } = dependencies;
  const { ownerId } = identity;
  const attachedJobs = new Set<string>();

  return {
    ...createFileUploads(dependencies),

    async get(accountId, id, field) {
      const file = await files.get(accountId, id);
      if (file === undefined) throw errors.fileNotFound(id.slice(0, 100), field);
      return file;
    },

    async list(accountId, query) {
      // Files that the client did not upload are listed only on request.
      const except = query.purpose === undefined ? MESSAGE_BATCH : undefined;
      const found = await files.list(accountId, { ...query, except, limit: query.limit + 1 });
      return { files: found.slice(0, query.limit), hasMore: found.length > query.limit };
    },

    async open(file, range) {
      const content = await blobs.get(file.blobKey, range);
      // Deleted since the lookup.
      if (content === undefined) throw errors.fileNotFound(file.id);
      return content;
    },

    link: async (file) => blobs.link?.(file.blobKey, file.filename),

    async remove(accountId, id) {
      if (!(await files.discard(accountId, id, clock.now()))) throw errors.fileNotFound(id.slice(0, 100));
      await retention.removeDiscarded();
    },

    async attach(file, jobId) {
      const leaseUntil = clock.now() + identity.leaseMs;
      attachedJobs.add(jobId);
      if (await files.attach(file.id, { id: jobId, ownerId, leaseUntil })) return;
      attachedJobs.delete(jobId);
      throw errors.fileNotFound(file.id);
    },

    async detach(jobId) {
      attachedJobs.delete(jobId);
      await files.detach(jobId);
      await retention.removeDiscarded();
    },

    async renewLeases(leaseUntil) {
      if (attachedJobs.size > 0) await files.renewAttachments(ownerId, leaseUntil);
    },

    releaseOthers: () => files.detachOthers(ownerId),
  };
}
