import {
  type Batch,
  type BatchEndpoint,
  checkMetadata,
  ENDPOINT_SCOPES,
  isActive,
  parseWindow,
} from '../../domain/batch.ts';
import type { Principal } from '../../domain/principal.ts';
import { ApiError } from '../../errors/api-error.ts';
import { errors } from '../../errors/errors.ts';
import type { BatchRepository } from '../../ports/batches.ts';
import type { Clock } from '../../ports/clock.ts';
import { createId, deriveId } from '../../runtime/ids.ts';
import type { FilesService } from '../files/files.ts';

export interface BatchCommand {
  inputFileId: string;
  endpoint: BatchEndpoint;
  completionWindow: string;
  metadata: Readonly<Record<string, string>> | null;
  /** The run of an idempotency key. A repeated one finds the batch that it has created. */
  run?: { billingId: string; startedAt: number } | undefined;
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

/** When one of them ends is unknown. */
const RETRY_SECONDS = 60;

const tooManyActive = (limit: number) =>
  new ApiError(
    'capacity_exceeded',
    `This account has ${limit} batches that have not ended, which is the limit. Wait until one ends, or cancel one.`,
    { retryAfterSeconds: RETRY_SECONDS },
  );

export function createBatches({ batches, files, settings, clock, onChange }: BatchesDependencies): BatchesService {
  const service: BatchesService = {
    async create({ account, key }, { inputFileId, endpoint, completionWindow, metadata, run }) {
      const scope = ENDPOINT_SCOPES[endpoint];
      if (!key.scopes.includes(scope)) throw errors.insufficientScope(scope);
      const windowMs = parseWindow(completionWindow);
      if (metadata !== null) checkMetadata(metadata);
      const now = clock.now();
      const id = run === undefined ? createId('batch', now) : deriveId('batch', run.startedAt, run.billingId);
      const earlier = run === undefined ? undefined : await batches.get(id);
      if (earlier !== undefined) return earlier;
      const file = await files.get(account.id, inputFileId, ['inputFileId']);
      if (file.purpose !== 'batch') {
        throw errors.invalidParameter(
          ['inputFileId'],
          `The file '${file.id}' has the purpose '${file.purpose}'; the input of a batch needs the purpose 'batch'.`,
        );
      }
      const batch: Batch = {
        id,
        accountId: account.id,
        keyId: key.id,
        endpoint,
        inputFileId: file.id,
        completionWindow,
        metadata,
        status: 'validating',
        problems: [],
        outputFileId: null,
        errorFileId: null,
        counts: { total: 0, completed: 0, failed: 0 },
        createdAt: now,
        expiresAt: now + windowMs,
        inProgressAt: null,
        finalizingAt: null,
        cancellingAt: null,
        endedAt: null,
      };
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
