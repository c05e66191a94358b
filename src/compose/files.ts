import { join } from 'node:path';
import { createDiskBlobStore } from '../adapters/blobs/disk.ts';
import { createDiskSpace } from '../adapters/blobs/disk-space.ts';
import { createReservedBlobStore } from '../adapters/blobs/reserved.ts';
import type { Store } from '../adapters/store.ts';
import type { ResolvedConfig } from '../config/load.ts';
import type { BlobStore } from '../ports/blobs.ts';
import type { DiskSpace } from '../ports/disk-space.ts';
import type { Logger } from '../ports/logger.ts';
import type { ProcessIdentity } from '../ports/process-identity.ts';
import { systemClock as clock } from '../runtime/clock.ts';
import { createFileRetention, type FileRetention } from '../services/files/file-retention.ts';
import { createFileRetentionSchedule, type FileRetentionSchedule } from '../services/files/file-retention-schedule.ts';
import { createFiles, type FilesService } from '../services/files/files.ts';

const SWEEP_MS = 60_000;

export interface FileParts {
  blobs: BlobStore;
  space: DiskSpace;
  files: FilesService;
  retention: FileRetention;
  schedule: FileRetentionSchedule;
}

/** Blobs, the records of files, and their removal. */
export function composeFiles(options: {
  config: ResolvedConfig;
  store: Store;
  identity: ProcessIdentity;
  logger: Logger;
}): FileParts {
  const { config, store, identity, logger } = options;
  const { startedAt } = identity;
  const disk = createDiskBlobStore({ directory: join(config.dataDir, 'blobs'), now: clock.now });
  const { reserveBytes } = config.disk;
  const space = createDiskSpace({
    directory: config.dataDir,
    reserveBytes,
    now: clock.now,
    onChange({ isLow, ...bytes }) {
      if (isLow) logger.warn(bytes, 'the disk is low on space, refusing uploads and new batches');
      else logger.info(bytes, 'the disk has space again, accepting uploads and batches');
    },
  });
  const blobs = createReservedBlobStore(disk, space);
  const stopping = new AbortController();
  const retention = createFileRetention({ files: store.files, blobs, clock, startedAt, signal: stopping.signal });
  return {
    blobs,
    space,
    retention,
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
      removeInterrupted: () => disk.sweepTemporary(clock.now() - startedAt),
      everyMs: SWEEP_MS,
      logger,
      stopping,
    }),
  };
}
