import { join } from 'node:path';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import type { DiskSpace } from '@baobab/core/ports/disk-space.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import { systemClock as clock } from '@baobab/core/runtime/clock.ts';
import { createDiskBlobStore } from '../adapters/blobs/disk.ts';
import { createReservedBlobStore } from '../adapters/blobs/reserved.ts';
import type { S3BlobOptions, S3BlobStore } from '../adapters/blobs/s3.ts';
import type { ResolvedConfig } from '../config/load.ts';
import type { SecretFiles } from './secret-files.ts';
import type { Environment } from './weights.ts';

export interface BlobParts {
  blobs: BlobStore;
  /** Blobs without a record that are older than this were left by a crash. Milliseconds since 1970. */
  orphansBefore: number;
  removeInterrupted(): Promise<number>;
  /** What the operator should know while requests are still answered. */
  degraded(): string[];
  closeBlobs(): void;
}

export interface BlobsOptions {
  config: ResolvedConfig;
  secretFiles: SecretFiles;
  identity: ProcessIdentity;
  space: DiskSpace;
  /** Other processes store blobs on the same disk. */
  sharedDisk: boolean;
  logger: Logger;
  env: Environment;
}

/** Uploads of other processes may be under way: no request takes longer. Clocks differ by less. */
const UPLOAD_MS = DAY_MS;

/** Bytes of files, batches and stored answers: on the disk of this server, or in S3 for all servers. */
export async function openBlobs({
  config,
  secretFiles,
  identity,
  space,
  sharedDisk,
  logger,
  env,
}: BlobsOptions): Promise<BlobParts> {
  if (config.blobs === undefined) {
    // The times of files are those of this machine.
    const startedAt = clock.now();
    const disk = createDiskBlobStore({ directory: join(config.dataDir, 'blobs'), now: clock.now });
    return {
      blobs: createReservedBlobStore(disk, space),
      orphansBefore: sharedDisk ? startedAt - UPLOAD_MS : startedAt,
      removeInterrupted: () => disk.sweepTemporary(sharedDisk ? UPLOAD_MS : clock.now() - startedAt),
      degraded: () => [],
      closeBlobs: () => {},
    };
  }
  const s3 = await openBucket(config, config.blobs, env, ({ isAway, error }) => {
    if (isAway) logger.warn({ err: error }, 'S3 does not answer, requests that need files get 503');
    else logger.info({}, 'S3 answers again');
  });
  secretFiles.add({ name: 'S3', refresh: s3.refreshCredentials });
  return {
    blobs: s3,
    orphansBefore: identity.startedAt - UPLOAD_MS,
    removeInterrupted: () => s3.sweepTemporary(UPLOAD_MS),
    degraded: () => (s3.isAway() ? ['S3 does not answer: requests that need files get 503'] : []),
    closeBlobs: s3.close,
  };
}

export async function openBucket(
  config: ResolvedConfig,
  address: string,
  env: Environment,
  onChange?: S3BlobOptions['onChange'],
): Promise<S3BlobStore> {
  // Loaded only where it is used, for the sake of all other starts.
  const { openS3BlobStore } = await import('../adapters/blobs/s3.ts');
  const { hostname, pathname } = new URL(address);
  return openS3BlobStore({
    bucket: hostname,
    prefix: pathname.replace(/^\/|\/$/g, ''),
    endpoint: config.blobsEndpoint,
    region: env.AWS_REGION ?? env.AWS_DEFAULT_REGION ?? 'us-east-1',
    withLinks: config.blobsPresignedDownloads,
    now: clock.now,
    onChange,
  });
}
