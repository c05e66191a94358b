import { type Batch, type BatchEndpoint, isActive, parseWindow } from '@baobab/core/domain/batch.ts';
import { checkMetadata } from '@baobab/core/domain/metadata.ts';
import { BATCH_OPERATIONS } from '@baobab/core/domain/operations.ts';
import { type Principal, requireRight } from '@baobab/core/domain/principal.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { BatchRepository } from '@baobab/core/ports/batches.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import { createId, deriveId } from '@baobab/core/runtime/ids.ts';
import type { FilesService } from '../files/files.ts';

export interface BatchCommand {
  inputFileId: string;
  endpoint: BatchEndpoint;
  completionWindow: string;
  metadata: Readonly<Record<string, string>> | null;
  /** How long the results are kept, by default as long as other files. */
  resultLifetimeMs?: number | undefined;
  run?: BatchRun | undefined;
}

export interface BatchPage {
  batches: Batch[];
  hasMore: boolean;
}

/** Creates, shows and cancels batches. The runner works on them. */
export interface BatchesService {
  create(principal: Principal, command: BatchCommand): Promise<Batch>;
  /** Throws 404 for batches that do not exist or belong to another account. */
  get(accountId: string, id: string): Promise<Batch>;
  list(accountId: string, page: { limit: number; after?: string | undefined }): Promise<BatchPage>;
  /** Running lines end first. Finished ones are in the output file. */
  cancel(accountId: string, id: string): Promise<Batch>;
}

export interface BatchesDependencies {
  batches: BatchRepository;
  files: FilesService;
  settings: { maxActivePerAccount: number };
  clock: Clock;
  /** Wakes the runner. */
  onChange(): void;
}

export function createBatches({ batches, files, settings, clock, onChange }: BatchesDependencies): BatchesService {
  const service: BatchesService = {
    async create(principal, { inputFileId, endpoint, completionWindow, metadata, resultLifetimeMs, run }) {
      const { account } = principal;
      requireRight(principal, BATCH_OPERATIONS[endpoint]);
      const windowMs = parseWindow(completionWindow);
      if (metadata !== null) checkMetadata(metadata);
      const now = clock.now();
      const id = batchId(run, now);
      const earlier = run === undefined ? undefined : await batches.get(id);
      if (earlier !== undefined) return earlier;
      const file = await files.get(account.id, inputFileId, ['inputFileId']);
      if (file.purpose !== 'batch') {
        throw errors.invalidParameter(
          ['inputFileId'],
          `The file '${file.id}' has the purpose '${file.purpose}'; the input of a batch needs the purpose 'batch'.`,
        );
      }
      const batch = newBatch(principal, {
        id,
        endpoint,
        inputFileId: file.id,
        completionWindow,
        metadata,
        resultLifetimeMs: resultLifetimeMs ?? null,
        createdAt: now,
        expiresAt: now + windowMs,
        total: 0,
      });
      const created = await batches.create(batch, settings.maxActivePerAccount);
      if (created === 'input gone') throw errors.fileNotFound(file.id, ['inputFileId']);
      if (created === 'too many active') throw tooManyActive(settings.maxActivePerAccount);
      onChange();
      return batch;
    },

    async get(accountId, id) {
      const batch = await batches.get(id);
      if (batch === undefined || batch.accountId !== accountId) throw errors.batchNotFound(id.slice(0, 100));
      return batch;
    },

    async list(accountId, { limit, after }) {
      const found = await batches.list({ accountId, limit: limit + 1, after });
      return { batches: found.slice(0, limit), hasMore: found.length > limit };
    },

    async cancel(accountId, id) {
      const { status } = await service.get(accountId, id);
      if (status === 'cancelled' || status === 'cancelling') return service.get(accountId, id);
      await batches.cancel(id, clock.now());
      const batch = await service.get(accountId, id);
      if (batch.cancellingAt === null) {
        throw errors.validationFailed(
          undefined,
          isActive(batch.status)
            ? `The batch '${id}' is '${batch.status}' already and ends by itself.`
            : `The batch '${id}' is '${batch.status}' and cannot be cancelled any more.`,
        );
      }
      onChange();
      return batch;
    },
  };
  return service;
}

/** The run of an idempotency key. A repeated one finds the batch that it has created. */
export interface BatchRun {
  billingId: string;
  startedAt: number;
}

export const batchId = (run: BatchRun | undefined, now: number): string =>
  run === undefined ? createId('batch', now) : deriveId('batch', run.startedAt, run.billingId);

interface NewBatch
  extends Pick<
    Batch,
    'id' | 'endpoint' | 'inputFileId' | 'completionWindow' | 'metadata' | 'resultLifetimeMs' | 'createdAt' | 'expiresAt'
  > {
  /** Lines, if they have been counted. */
  total: number;
}

export const newBatch = ({ account, key }: Principal, { total, ...fields }: NewBatch): Batch => ({
  ...fields,
  accountId: account.id,
  keyId: key.id,
  status: 'validating',
  problems: [],
  outputFileId: null,
  errorFileId: null,
  counts: { total, completed: 0, failed: 0 },
  expiredLines: 0,
  bills: null,
  inProgressAt: null,
  finalizingAt: null,
  cancellingAt: null,
  endedAt: null,
});

/** When one of them ends is unknown. */
const RETRY_SECONDS = 60;

export const tooManyActive = (limit: number): ApiError =>
  new ApiError(
    'capacity_exceeded',
    `This account has ${limit} batches that have not ended, which is the limit. Wait until one ends, or cancel one.`,
    { retryAfterSeconds: RETRY_SECONDS },
  );
