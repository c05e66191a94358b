import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { cleanFilename, FILE_BLOBS, type FilePurpose, MESSAGE_BATCH, type StoredFile } from '../../domain/file.ts';
import { DAY_MS } from '../../domain/time/durations.ts';
import { errors } from '../../errors/errors.ts';
import type { Field } from '../../errors/fields.ts';
import { StorageFullError } from '../../errors/store-unavailable.ts';
import type { BlobStore, ByteRange } from '../../ports/blobs.ts';
import type { Clock } from '../../ports/clock.ts';
import type { FileQuery, FileRepository } from '../../ports/files.ts';
import type { ProcessIdentity } from '../../ports/process-identity.ts';
import type { AccountRepository } from '../../ports/repositories.ts';
import { createBoundedAmounts } from '../../runtime/bounded-amounts.ts';
import { createId } from '../../runtime/ids.ts';
import type { FileRetention } from './file-retention.ts';
import { createReceivedFile, createRefusedFile, type ReceivedFile } from './received-file.ts';
import { type CountedUpload, createUploadQuota } from './upload-quota.ts';

export interface Upload {
  filename: string;
  content: AsyncIterable<Uint8Array>;
  /** Called when the content has ended, because forms may send the purpose after the file. */
  purpose(): FilePurpose;
  /** How long to keep the file, if that is shorter than the retention of the account. Called when the content has ended. */
  lifetimeMs?: (() => number | undefined) | undefined;
  /** Size that the client announced, to refuse early. */
  announcedBytes?: number | undefined;
  /**
   * It was sent with an idempotency key. Beyond the quota it is read to its end, because it may be the retry of an upload that was stored,
   * which only its whole content shows.
   */
  isKeyed?: boolean | undefined;
}

export interface FilePage {
  files: StoredFile[];
  hasMore: boolean;
}

export interface FilesService {
  /** Stores the content of an upload without making it visible. */
  receive(accountId: string, upload: Upload): Promise<ReceivedFile>;
  /** Resolves when content and record are durable. A failure leaves nothing behind. */
  upload(accountId: string, upload: Upload): Promise<StoredFile>;
  /** Stores content without a record, for callers that write the record with something else. */
  store(accountId: string, upload: Omit<Upload, 'announcedBytes'>): Promise<StoredFile>;
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

export interface FilesSettings {
  maxBytes: number;
  retentionDays: number;
  quotaBytes: number;
  quotaFiles: number;
}

export interface FilesDependencies {
  files: FileRepository;
  accounts: Pick<AccountRepository, 'get'>;
  blobs: BlobStore;
  retention: Pick<FileRetention, 'removeDiscarded'>;
  settings: FilesSettings;
  /** Owns the attachments. */
  identity: Pick<ProcessIdentity, 'ownerId' | 'leaseMs'>;
  clock: Clock;
}

type StoredBytes = Pick<StoredFile, 'bytes' | 'sha256' | 'blobKey'>;

interface RecordOptions {
  filename: string;
  purpose: FilePurpose;
  lifetimeMs: number | undefined;
}

/** What the client wants to be recorded of an upload. */
const recordOptions = ({ filename, purpose, lifetimeMs }: Omit<Upload, 'content'>): RecordOptions => ({
  filename,
  purpose: purpose(),
  lifetimeMs: lifetimeMs?.(),
});

/** The account has no room for an upload, all of which was read. */
class PassedQuota extends Error {
  readonly bytes: number;
  readonly sha256: string;

  constructor(bytes: number, sha256: string) {
    super('the upload passes the quota');
    this.bytes = bytes;
    this.sha256 = sha256;
  }
}

const NO_ROOM: CountedUpload = { add: () => false, end() {} };

/** Of each account. An upload to S3 holds parts of the file in memory, for as long as its client takes to send it. */
const MAX_UPLOADS = 64;

/** A form is this much larger than its file, at most. */
const FORM_OVERHEAD_BYTES = 65_536;

export function createFiles(dependencies: FilesDependencies): FilesService {
  const { files, accounts, blobs, retention, settings, identity, clock } = dependencies;
  const { ownerId } = identity;
  const attachedJobs = new Set<string>();
  const uploads = createBoundedAmounts(MAX_UPLOADS);
  const quota = { items: settings.quotaFiles, bytes: settings.quotaBytes };
  const uploadQuota = createUploadQuota(files, quota);

  async function quotaExceeded(accountId: string): Promise<Error> {
    const stored = await files.stored(accountId);
    return errors.validationFailed(
      ['file'],
      `This account stores ${stored.items} files with ${stored.bytes} bytes; with this one it would pass its quota of ` +
        `${quota.items === 0 ? 'any number of' : quota.items} files and ${quota.bytes === 0 ? 'any number of' : quota.bytes} bytes. ` +
        'Delete files that are no longer needed.',
    );
  }

  /** Refuses early what would be refused at the end. */
  async function beginUpload(accountId: string, { announcedBytes = 0, isKeyed }: Upload): Promise<CountedUpload> {
    if (announcedBytes > settings.maxBytes + FORM_OVERHEAD_BYTES) throw errors.fileTooLarge(settings.maxBytes);
    const counted = await uploadQuota.begin(accountId, Math.max(0, announcedBytes - FORM_OVERHEAD_BYTES));
    if (counted === undefined && !isKeyed) throw await quotaExceeded(accountId);
    return counted ?? NO_ROOM;
  }

  /** Fails when the quota is passed: at once, or with `PassedQuota` when all of an upload with a key was read. */
  async function* limited(accountId: string, { content, isKeyed }: Upload, counted: CountedUpload) {
    const hash = createHash('sha256');
    let bytes = 0;
    let isWithin = true;
    for await (const chunk of content) {
      bytes += chunk.length;
      if (bytes > settings.maxBytes) throw errors.fileTooLarge(settings.maxBytes);
      if (isKeyed) hash.update(chunk);
      isWithin &&= await counted.add(chunk.length);
      if (isWithin) yield chunk;
      else if (!isKeyed) throw await quotaExceeded(accountId);
    }
    if (!isWithin) throw new PassedQuota(bytes, hash.digest('hex'));
  }

  /** `bytes` and `sha256` are those of the content. */
  async function recordOf(accountId: string, options: RecordOptions, stored: StoredBytes): Promise<StoredFile> {
    const createdAt = clock.now();
    const retentionDays = (await accounts.get(accountId))?.fileRetentionDays ?? settings.retentionDays;
    return {
      id: createId('file', createdAt),
      accountId,
      purpose: options.purpose,
      filename: cleanFilename(options.filename),
      ...stored,
      createdAt,
      expiresAt: createdAt + Math.min(retentionDays * DAY_MS, options.lifetimeMs ?? Number.POSITIVE_INFINITY),
    };
  }

  async function receiveOne(accountId: string, upload: Upload): Promise<ReceivedFile> {
    const counted = await beginUpload(accountId, upload);
    const content = limited(accountId, upload, counted);
    try {
      const file = await service.store(accountId, { ...upload, content });
      return createReceivedFile(file, { files, blobs, quota, counted, quotaExceeded });
    } catch (error) {
      counted.end();
      if (!(error instanceof PassedQuota)) throw error;
      const { bytes, sha256 } = error;
      const file = await recordOf(accountId, recordOptions(upload), { bytes, sha256, blobKey: '' });
      return createRefusedFile(file, { files, quotaExceeded });
    }
  }

  const service: FilesService = {
    async receive(accountId, upload) {
      if (!uploads.add(accountId, 1)) throw errors.tooManyUploads();
      try {
        return await receiveOne(accountId, upload);
      } finally {
        uploads.remove(accountId, 1);
      }
    },

    async upload(accountId, upload) {
      const received = await service.receive(accountId, upload);
      return received.publish();
    },

    async store(accountId, upload) {
      const name = createId('blob', clock.now());
      // The last characters are random, so directories fill evenly.
      const blobKey = `${FILE_BLOBS}${name.slice(-2)}/${name}`;
      const decided: { options?: RecordOptions } = {};
      async function* whole(): AsyncGenerator<Uint8Array> {
        yield* upload.content;
        // Inside the source, so that no blob is left when this throws.
        decided.options = recordOptions(upload);
      }
      const { bytes, sha256 } = await blobs.put(blobKey, whole()).catch((error) => {
        throw error instanceof StorageFullError ? errors.storageFull() : error;
      });
      return recordOf(accountId, decided.options ?? recordOptions(upload), { bytes, sha256, blobKey });
    },

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
  return service;
}
