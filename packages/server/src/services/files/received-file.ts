import type { StoredFile } from '@baobab/core/domain/file.ts';
import { StorageFullError, StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import type { FileRepository } from '@baobab/core/ports/files.ts';
import type { Quota } from '@baobab/core/ports/quotas.ts';
import { DuplicateError } from '@baobab/core/ports/store-errors.ts';
import { deriveId } from '@baobab/core/runtime/ids.ts';
import type { CountedUpload } from './upload-quota.ts';

/** The run of an idempotency key. */
export interface UploadRun {
  billingId: string;
  /** The same when the run is repeated. */
  startedAt: number;
}

/** An upload that is stored but not visible yet. Call `publish` or `discard`. */
export interface ReceivedFile {
  file: StoredFile;
  /** Resolves when the file is visible and durable. A repeated run finds the file that it has created. */
  publish(run?: UploadRun): Promise<StoredFile>;
  /** Stores the record with `write`, for callers that store it together with something else. It returns false when the quota is passed. */
  publishWith(write: (quota: Quota) => Promise<boolean>): Promise<void>;
  discard(): Promise<void>;
}

export interface ReceivedFileDependencies {
  files: Pick<FileRepository, 'create' | 'get'>;
  blobs: Pick<BlobStore, 'delete'>;
  quota: Quota;
  counted: CountedUpload;
  quotaExceeded(accountId: string): Promise<Error>;
}

const idOf = ({ startedAt, billingId }: UploadRun): string => deriveId('file', startedAt, billingId);

/** An upload beyond the quota, whose bytes were read but not stored. Only an earlier attempt of its run can have stored it. */
export function createRefusedFile(
  file: StoredFile,
  { files, quotaExceeded }: Pick<ReceivedFileDependencies, 'files' | 'quotaExceeded'>,
): ReceivedFile {
  const refuse = async (): Promise<never> => {
    throw await quotaExceeded(file.accountId);
  };
  return {
    file,
    async discard() {},
    publishWith: refuse,
    publish: async (run) => (run && (await files.get(file.accountId, idOf(run)))) ?? refuse(),
  };
}

export function createReceivedFile(file: StoredFile, dependencies: ReceivedFileDependencies): ReceivedFile {
  const { files, blobs, quota, counted, quotaExceeded } = dependencies;
  const { accountId } = file;
  const discard = () => blobs.delete(file.blobKey).finally(() => counted.end());

  async function store(write: () => Promise<boolean>): Promise<void> {
    let isStored = false;
    try {
      isStored = await write();
    } catch (error) {
      // The record may exist although the store never confirmed it. Its bytes must stay: those without a record are removed a day later.
      if (error instanceof StoreUnavailableError && !(error instanceof StorageFullError)) counted.end();
      else await discard();
      throw error;
    }
    if (isStored) {
      counted.end(file.bytes);
      return;
    }
    await discard();
    throw await quotaExceeded(accountId);
  }

  async function create(named: StoredFile): Promise<StoredFile> {
    try {
      await store(() => files.create(named, quota));
      return named;
    } catch (error) {
      // Another attempt of the same run was first.
      const first = error instanceof DuplicateError ? await files.get(accountId, named.id) : undefined;
      if (first === undefined) throw error;
      return first;
    }
  }

  return {
    file,
    discard,
    publishWith: (write) => store(() => write(quota)),
    async publish(run) {
      if (run === undefined) return create(file);
      const named = { ...file, id: idOf(run) };
      let earlier: StoredFile | undefined;
      try {
        earlier = await files.get(accountId, named.id);
      } catch (error) {
        await discard();
        throw error;
      }
      if (earlier === undefined) return create(named);
      await discard();
      return earlier;
    },
  };
}
