import { type Batch, isActive } from '@baobab/core/domain/batch.ts';
import { MESSAGE_BATCH, type StoredFile } from '@baobab/core/domain/file.ts';
import { type Account, type Principal, requireRight } from '@baobab/core/domain/principal.ts';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { BatchRepository } from '@baobab/core/ports/batches.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { FileRepository } from '@baobab/core/ports/files.ts';
import { DuplicateError } from '@baobab/core/ports/store-errors.ts';
import { type BatchRun, batchId, newBatch, tooManyActive } from '../batches/batches.ts';
import type { FileRetention } from '../files/file-retention.ts';
import type { Upload } from '../files/file-uploads.ts';
import type { FilesService } from '../files/files.ts';
import type { ReceivedFile } from '../files/received-file.ts';
import { createResultReader, type RequestEnd, type ResultReaderDependencies } from './results.ts';

const ENDPOINT = '/v1/messages';
const WINDOW = '24h';

export interface ShownBatch {
  batch: Batch;
  /** When its results were removed. Null: they are there, or will be. */
  archivedAt: number | null;
}

export interface MessageBatchPage {
  batches: ShownBatch[];
  hasMore: boolean;
}

export interface MessageBatchQuery {
  limit: number;
  after?: string | undefined;
  before?: string | undefined;
}

/**
 * Batches of `/v1/messages` whose requests come in one body instead of a file. The runner of batches works on them. Their files have a
 * purpose of their own and are deleted with them.
 */
export interface MessageBatchesService {
  /** Stores the requests, as lines of a batch, without creating it. */
  receive(principal: Principal, upload: Pick<Upload, 'content' | 'announcedBytes' | 'isKeyed'>): Promise<ReceivedFile>;
  /** Creates a batch of received requests. A failure leaves nothing behind. */
  create(
    principal: Principal,
    received: ReceivedFile,
    options: { requests: number; run?: BatchRun | undefined },
  ): Promise<ShownBatch>;
  /** Throws 404 for batches that do not exist, belong to another account or are for another endpoint. */
  get(account: Account, id: string): Promise<ShownBatch>;
  list(account: Account, query: MessageBatchQuery): Promise<MessageBatchPage>;
  /** Running requests end first. */
  cancel(account: Account, id: string): Promise<ShownBatch>;
  /** Deletes a batch that has ended, and its files unless the client has uploaded them. */
  remove(account: Account, id: string): Promise<void>;
  /** Throws 404 until the batch has ended, and when its results are gone. */
  results(account: Account, id: string): Promise<AsyncIterable<RequestEnd>>;
}

export interface MessageBatchesDependencies extends ResultReaderDependencies {
  batches: BatchRepository;
  fileRecords: FileRepository;
  files: Pick<FilesService, 'receive' | 'open'>;
  retention: Pick<FileRetention, 'removeDiscarded'>;
  settings: { maxActivePerAccount: number; retentionDays: number };
  clock: Clock;
  /** Wakes the runner. */
  onChange(): void;
}

/** The files that the results are read from. A batch that did not complete has requests that are only in its input. */
function resultFileIds({ status, outputFileId, errorFileId, inputFileId }: Batch): string[] {
  const input = status === 'completed' ? null : inputFileId;
  return [outputFileId, errorFileId, input].filter((id) => id !== null);
}

export function createMessageBatches(dependencies: MessageBatchesDependencies): MessageBatchesService {
  const { batches, fileRecords, files, retention, settings, clock, onChange } = dependencies;
  const { maxActivePerAccount, retentionDays } = settings;
  const readResults = createResultReader(dependencies);

  async function find({ id: accountId }: Account, id: string): Promise<Batch> {
    const batch = await batches.get(id);
    if (batch === undefined || batch.accountId !== accountId || batch.endpoint !== ENDPOINT) {
      throw errors.batchNotFound(id.slice(0, 100));
    }
    return batch;
  }

  async function show(account: Account, found: readonly Batch[]): Promise<ShownBatch[]> {
    const needed = found.filter(({ status }) => !isActive(status)).flatMap(resultFileIds);
    const present = await fileRecords.present(account.id, needed);
    const retentionMs = (account.fileRetentionDays ?? retentionDays) * DAY_MS;
    return found.map((batch) => {
      const isWhole = batch.endedAt === null || resultFileIds(batch).every((id) => present.has(id));
      const keptMs = Math.min(retentionMs, batch.resultLifetimeMs ?? Number.POSITIVE_INFINITY);
      const archivedAt = isWhole ? null : Math.min(clock.now(), (batch.endedAt ?? 0) + keptMs);
      return { batch, archivedAt };
    });
  }

  const showOne = async (account: Account, batch: Batch): Promise<ShownBatch> =>
    (await show(account, [batch]))[0] as ShownBatch;

  async function store(batch: Batch, received: ReceivedFile): Promise<void> {
    const file = { ...received.file, filename: `${batch.id}_input.jsonl` };
    await received.publishWith(async (quota) => {
      const created = await batches.create(batch, maxActivePerAccount, { file, quota });
      if (created === 'too many active') throw tooManyActive(maxActivePerAccount);
      return created === 'created';
    });
    onChange();
  }

  /** The batch that another attempt of the same run has created. */
  async function earlierBatch(id: string, received: ReceivedFile): Promise<Batch | undefined> {
    let earlier: Batch | undefined;
    try {
      earlier = await batches.get(id);
    } catch (error) {
      await received.discard();
      throw error;
    }
    if (earlier !== undefined) await received.discard();
    return earlier;
  }

  return {
    async receive(principal, upload) {
      requireRight(principal, 'messages.create');
      return files.receive(principal.account.id, { ...upload, filename: 'input.jsonl', purpose: () => MESSAGE_BATCH });
    },

    async create(principal, received, { requests, run }) {
      const now = clock.now();
      const id = batchId(run, now);
      const earlier = run === undefined ? undefined : await earlierBatch(id, received);
      if (earlier !== undefined) return showOne(principal.account, earlier);
      const batch = newBatch(principal, {
        id,
        endpoint: ENDPOINT,
        inputFileId: received.file.id,
        completionWindow: WINDOW,
        metadata: null,
        resultLifetimeMs: null,
        createdAt: now,
        expiresAt: now + DAY_MS,
        total: requests,
      });
      try {
        await store(batch, received);
      } catch (error) {
        if (run === undefined || !(error instanceof DuplicateError)) throw error;
        return showOne(principal.account, await find(principal.account, id));
      }
      return { batch, archivedAt: null };
    },

    get: async (account, id) => showOne(account, await find(account, id)),

    async list(account, { limit, after, before }) {
      const found = await batches.list({
        accountId: account.id,
        endpoint: ENDPOINT,
        limit: limit + 1,
        after,
        before,
      });
      const page = before === undefined ? found.slice(0, limit) : found.slice(-limit);
      return { batches: await show(account, page), hasMore: found.length > limit };
    },

    async cancel(account, id) {
      await find(account, id);
      await batches.cancel(id, clock.now());
      const batch = await find(account, id);
      if (batch.endedAt !== null && batch.status !== 'cancelled') {
        throw errors.invalidParameter(undefined, `The batch '${id}' has ended and cannot be canceled.`);
      }
      onChange();
      return showOne(account, batch);
    },

    async remove(account, id) {
      const batch = await find(account, id);
      if (batch.endedAt === null) {
        throw errors.invalidParameter(undefined, `The batch '${id}' has not ended. Cancel it before you delete it.`);
      }
      // The record last: after a crash in between, the client can delete the batch again.
      for (const fileId of [batch.inputFileId, batch.outputFileId, batch.errorFileId]) {
        const file = fileId === null ? undefined : await fileRecords.get(account.id, fileId);
        if (file?.purpose === MESSAGE_BATCH) await fileRecords.discard(account.id, file.id, clock.now());
      }
      await batches.forget([id]);
      await retention.removeDiscarded();
    },

    async results(account, id) {
      const batch = await find(account, id);
      if (batch.endedAt === null) {
        throw new ApiError('batch_not_found', `The batch '${id}' has not ended, so there are no results yet.`);
      }
      const [output, failed, input] = await Promise.all(
        [batch.outputFileId, batch.errorFileId, batch.status === 'completed' ? null : batch.inputFileId].map(
          async (fileId): Promise<StoredFile | undefined> => {
            if (fileId === null) return undefined;
            const file = await fileRecords.get(account.id, fileId);
            if (file !== undefined) return file;
            throw new ApiError('file_not_found', `The results of the batch '${id}' were deleted or have expired.`);
          },
        ),
      );
      return readResults(batch, { output, errors: failed, input });
    },
  };
}
