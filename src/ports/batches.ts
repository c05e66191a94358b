import type { Batch, BatchOutcome, BatchProblem } from '../domain/batch.ts';
import type { StoredFile } from '../domain/file.ts';

export interface BatchQuery {
  /** Undefined: of every account, for operators. */
  accountId?: string | undefined;
  limit: number;
  /** Id behind which the page begins. */
  after?: string | undefined;
}

/** Where the answer of a line lies: bytes of a blob. */
export interface RecordedLine {
  line: number;
  failed: boolean;
  blobKey: string;
  offset: number;
  bytes: number;
}

export interface BatchEnd {
  outcome: BatchOutcome;
  problems?: readonly BatchProblem[] | undefined;
  output?: StoredFile | undefined;
  errors?: StoredFile | undefined;
  now: number;
}

/** Records of batches and of their lines. Newest first in lists. */
export interface BatchRepository {
  /** Together with the attachment of its input. False when that file is gone. */
  create(batch: Batch): Promise<boolean>;
  get(id: string): Promise<Batch | undefined>;
  list(query: BatchQuery): Promise<Batch[]>;
  /** Batches that need work, oldest first. */
  listActive(limit: number): Promise<Batch[]>;
  /** The statuses of these, for those that watch for a cancellation from elsewhere. */
  cancelled(ids: readonly string[]): Promise<Set<string>>;
  /** Asks for the end of a batch; only one that has not begun to finalize can be cancelled. */
  cancel(id: string, now: number): Promise<void>;

  /** Forgets what an interrupted validation recorded. */
  restart(id: string): Promise<void>;
  /** Validation is over; the batch runs unless it was cancelled meanwhile. */
  begin(id: string, validated: { total: number; problems: readonly BatchProblem[]; now: number }): Promise<void>;
  /** The lines and the counts, all or none. A line that is recorded already stays as it is and counts once. */
  record(id: string, lines: readonly RecordedLine[]): Promise<void>;
  /** Numbers of recorded lines above `after`, in order. */
  recordedLines(id: string, page: { after: number; limit: number }): Promise<number[]>;
  recorded(id: string, page: { failed: boolean; after: number; limit: number }): Promise<RecordedLine[]>;
  finalize(id: string, now: number): Promise<void>;
  /** The last status, its files, the end of the attachment and of the lines: all or none. */
  end(id: string, end: BatchEnd): Promise<void>;
}
