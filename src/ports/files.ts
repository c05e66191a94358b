import type { FilePurpose, StoredFile } from '../domain/file.ts';
import type { Quota, StoredAmount } from './quotas.ts';

export interface FileQuery {
  purpose?: FilePurpose | undefined;
  limit: number;
  /** Id behind which the page begins. It need not exist any more. */
  after?: string | undefined;
  order: 'asc' | 'desc';
}

/** A kind of work that reads a file. Transcriptions do not outlive the server, batches do. */
export type JobKind = 'batch' | 'transcription';

/** Bytes that nobody needs any more, with the record that still remembers them. */
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
  /** Gone for clients from now on; the bytes stay while a job reads them. False when there is no such file. */
  discard(accountId: string, id: string, now: number): Promise<boolean>;
  /** Discards files past their time that no job reads, at most so many; returns how many. */
  discardExpired(now: number, limit: number): Promise<number>;
  /** Discarded files that no job reads, at most so many. */
  listDiscarded(limit: number): Promise<DiscardedFile[]>;
  /** Forgets discarded files, after their bytes have gone. */
  forget(ids: readonly string[]): Promise<void>;
  /** Which of these blobs belong to a record. */
  knownBlobs(blobKeys: readonly string[]): Promise<Set<string>>;
  /** Keeps the bytes of a file for a job. False when the file is gone already. */
  attach(fileId: string, job: { id: string; kind: JobKind }): Promise<boolean>;
  /** What a job reads, also when it is discarded. */
  attached(jobId: string): Promise<StoredFile | undefined>;
  detach(jobId: string): Promise<void>;
  /** For jobs that cannot have outlived the last server. */
  detachAll(kind: JobKind): Promise<void>;
}
