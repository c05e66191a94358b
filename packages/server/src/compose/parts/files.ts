import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { DiskSpace } from '@baobab/core/ports/disk-space.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import { steadyClock } from '@baobab/core/runtime/clock.ts';
import { createDiskSpace } from '../../adapters/blobs/disk-space.ts';
import type { Store } from '../../adapters/store.ts';
import type { ResolvedConfig } from '../../config/load.ts';
import { removeBatchLeftovers } from '../../services/batches/batch-end.ts';
import { createFileRetention, type FileRetention } from '../../services/files/file-retention.ts';
import {
  createFileRetentionSchedule,
  type FileRetentionSchedule,
} from '../../services/files/file-retention-schedule.ts';
import { createFiles, type FilesService } from '../../services/files/files.ts';
import type { IsMyTurn } from '../background-jobs.ts';
import { openBlobs } from '../blobs.ts';
import type { SecretFiles } from '../secret-files.ts';
import type { Environment } from '../weights.ts';

const SWEEP_MS = 60_000;
/** Servers that start within this time leave the search for leftovers to the first one. */
const RECOVER_MS = 600_000;

export interface FileParts {
  blobs: BlobStore;
  space: DiskSpace;
  files: FilesService;
  retention: FileRetention;
  schedule: FileRetentionSchedule;
  /** What the operator should know while requests are still answered. */
  degraded(): string[];
  closeBlobs(): void;
}

/** Blobs, the records of files, and their removal. */
export async function composeFiles(options: {
  config: ResolvedConfig;
  secretFiles: SecretFiles;
  store: Store;
  identity: ProcessIdentity;
  clock: Clock;
  /** Other processes store blobs on the same disk. */
  sharedDisk: boolean;
  isMyTurn: IsMyTurn;
  logger: Logger;
  env: Environment;
}): Promise<FileParts> {
  const { config, secretFiles, store, identity, clock, sharedDisk, isMyTurn, logger, env } = options;
  // With PostgreSQL and S3 nothing grows on this disk: requests need no room on it.
  const reserveBytes = config.store !== undefined && config.blobs !== undefined ? 0 : config.disk.reserveBytes;
  const space = createDiskSpace({
    directory: config.dataDir,
    reserveBytes,
    now: steadyClock.now,
    onChange({ isLow, ...bytes }) {
      if (isLow) logger.warn(bytes, 'the disk is low on space, refusing uploads and new batches');
      else logger.info(bytes, 'the disk has space again, accepting uploads and batches');
    },
  });
  const { blobs, orphansBefore, removeInterrupted, degraded, closeBlobs } = await openBlobs({
    config,
    secretFiles,
    identity,
    space,
    sharedDisk,
    logger,
    env,
  });
  const stopping = new AbortController();
  const retention = createFileRetention({ files: store.files, blobs, clock, orphansBefore, signal: stopping.signal });
  return {
    blobs,
    space,
    retention,
    degraded,
    closeBlobs,
    files: createFiles({
      files: store.files,
      accounts: store.accounts,
      blobs,
      retention,
      settings: config.files,
      identity,
      clock,
    }),
    schedule: createFileRetentionSchedule({
      retention,
      removeInterrupted,
      removeBatchLeftovers: () =>
        removeBatchLeftovers({
          batches: store.batches,
          blobs,
          before: identity.startedAt,
          signal: stopping.signal,
        }),
      everyMs: SWEEP_MS,
      isMyTurn: () => isMyTurn('files', SWEEP_MS),
      // Another server cannot see this disk.
      isMyTurnToRecover: async () => config.blobs === undefined || isMyTurn('leftover files', RECOVER_MS),
      logger,
      stopping,
    }),
  };
}
