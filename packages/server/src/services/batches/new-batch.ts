import type { Batch } from '@baobab/core/domain/batch.ts';
import type { Principal } from '@baobab/core/domain/principal.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { createId, deriveId } from '@baobab/core/runtime/ids.ts';

/** The run of an idempotency key. A repeated one finds the batch that it has created. */
export interface BatchRun {
  billingId: string;
  startedAt: number;
}

export const batchId = (run: BatchRun | undefined, now: number): string =>
  run === undefined ? createId('batch', now) : deriveId('batch', run.startedAt, run.billingId);

export interface NewBatch
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
