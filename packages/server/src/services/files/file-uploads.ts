import { createHash } from 'node:crypto';
import { cleanFilename, FILE_BLOBS, type FilePurpose, type StoredFile } from '@baobab/core/domain/file.ts';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { StorageFullError } from '@baobab/core/errors/store-unavailable.ts';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { FileRepository } from '@baobab/core/ports/files.ts';
import type { AccountRepository } from '@baobab/core/ports/repositories.ts';
import { createId } from '@baobab/core/runtime/ids.ts';
import { createAccountAmounts } from '../../admission/account-amounts.ts';
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

export interface FileUploads {
  /** Stores the content of an upload without making it visible. */
  receive(accountId: string, upload: Upload): Promise<ReceivedFile>;
  /** Resolves when content and record are durable. A failure leaves nothing behind. */
  upload(accountId: string, upload: Upload): Promise<StoredFile>;
  /** Stores content without a record, for callers that write the record with something else. */
  store(accountId: string, upload: Omit<Upload, 'announcedBytes'>): Promise<StoredFile>;
}

export interface FilesSettings {
  maxBytes: number;
  retentionDays: number;
  quotaBytes: number;
  quotaFiles: number;
}

export interface FileUploadsDependencies {
  files: FileRepository;
  accounts: Pick<AccountRepository, 'get'>;
  blobs: BlobStore;
  settings: FilesSettings;
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

/** For each account. An upload to S3 holds parts of the file in memory, for as long as its client takes to send it. */
const MAX_UPLOADS = 64;

/** A form is this much larger than its file, at most. */
const FORM_OVERHEAD_BYTES = 65_536;

export function createFileUploads(dependencies: FileUploadsDependencies): FileUploads {
  const { files, accounts, blobs, settings, clock } = dependencies;
  const running = createAccountAmounts(MAX_UPLOADS);
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

  async function store(accountId: string, upload: Omit<Upload, 'announcedBytes'>): Promise<StoredFile> {
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
  }

  async function receiveOne(accountId: string, upload: Upload): Promise<ReceivedFile> {
    const counted = await beginUpload(accountId, upload);
    const content = limited(accountId, upload, counted);
    try {
      const file = await store(accountId, { ...upload, content });
      return createReceivedFile(file, { files, blobs, quota, counted, quotaExceeded });
    } catch (error) {
      counted.end();
      if (!(error instanceof PassedQuota)) throw error;
      const { bytes, sha256 } = error;
      const file = await recordOf(accountId, recordOptions(upload), { bytes, sha256, blobKey: '' });
      return createRefusedFile(file, { files, quotaExceeded });
    }
  }

  async function receive(accountId: string, upload: Upload): Promise<ReceivedFile> {
    if (!running.add(accountId, 1)) throw errors.tooManyAtOnce('uploads of this account are running');
    try {
      return await receiveOne(accountId, upload);
    } finally {
      running.remove(accountId, 1);
    }
  }

  return {
    receive,
    store,
    async upload(accountId, upload) {
      const received = await receive(accountId, upload);
      return received.publish();
    },
  };
}
