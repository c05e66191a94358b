import type { FilePurpose, StoredFile } from '../domain/file.ts';
import type { Quota, StoredAmount } from './quotas.ts';

export interface FileQuery {
  purpose?: FilePurpose | undefined;
  /** Leaves out the files of this purpose. */
  except?: FilePurpose | undefined;
  limit: number;
  /** The page starts after this id. It need not exist any more. */
  after?: string | undefined;
  order: 'asc' | 'desc';
}

/** Work of a process that reads a file. */
export interface LeasedJob {
  id: string;
  ownerId: string;
  leaseUntil: number;
}

/** A discarded file whose bytes can be deleted. */
export interface DiscardedFile {
  id: string;
  blobKey: string;
}

/** Records of files. Ids grow with time, so they are the order of lists. */
export interface FileRepository {
  /** False, and nothing stored, when the account would then have more than its quota. */
  create(file: StoredFile, quota: Quota): Promise<boolean>;
  stored(accountId: string): Promise<StoredAmount>;
  get(accountId: string, id: string): Promise<StoredFile | undefined>;
  list(accountId: string, query: FileQuery): Promise<StoredFile[]>;
  /** Which of these the account has. */
  present(accountId: string, ids: readonly string[]): Promise<Set<string>>;
  /** Hides the file from clients. The bytes stay while a job reads them. False when there is no such file. */
  discard(accountId: string, id: string, now: number): Promise<boolean>;
  /** Discards at most `limit` expired files that no job reads. Returns how many. */
  discardExpired(now: number, limit: number): Promise<number>;
  /** At most `limit` discarded files that no job reads. */
  listDiscarded(limit: number): Promise<DiscardedFile[]>;
  /** Deletes the records of discarded files, after their bytes are deleted. */
  forget(ids: readonly string[]): Promise<void>;
  /** Which of these blobs belong to a record. */
  knownBlobs(blobKeys: readonly string[]): Promise<Set<string>>;
  /** Keeps the bytes of a file for a job, until it is detached or its lease is over. False when the file is gone already. */
  attach(fileId: string, job: LeasedJob): Promise<boolean>;
  /** The file that a job reads, even if it is discarded. */
  attached(jobId: string): Promise<StoredFile | undefined>;
  detach(jobId: string): Promise<void>;
  /** Extends the leases of all jobs of the owner. */
  renewAttachments(ownerId: string, leaseUntil: number): Promise<void>;
  /** Detaches jobs whose lease is over. */
  detachExpired(now: number): Promise<void>;
  /** Detaches the leased jobs of all other owners: for a process that knows it is alone. */
  detachOthers(ownerId: string): Promise<void>;
}
