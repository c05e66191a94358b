import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '@baobab/core/runtime/clock.ts';
import { type TransferOptions, type TransferSummary, transfer } from '../adapters/transfer/transfer.ts';
import { addedFolders } from '../catalog/adding/catalog-folder.ts';
import type { ResolvedConfig } from '../config/load.ts';
import { openBucket } from './blobs.ts';
import type { Environment } from './weights.ts';

export { TransferError } from '../adapters/sql/shared/transfer.ts';
export type { TransferSummary } from '../adapters/transfer/transfer.ts';

export const hasOwnStore = ({ dataDir }: ResolvedConfig): boolean => existsSync(join(dataDir, 'baobab.sqlite'));

/** Models that were added while the service ran are files of the data directory, not rows. */
export async function countAddedModels({ dataDir }: ResolvedConfig): Promise<number> {
  const { catalog } = addedFolders(dataDir);
  if (!existsSync(catalog)) return 0;
  return (await readdir(catalog, { recursive: true })).filter((name) => name.endsWith('.yaml')).length;
}

export type TransferEvents = Pick<TransferOptions, 'onCopied'>;

/** Copies the data directory into the database at `url`, and its blobs into `config.blobs` where that is set. */
export async function transferTo(
  url: string,
  { config, env, ...events }: TransferEvents & { config: ResolvedConfig; env: Environment },
): Promise<TransferSummary> {
  const bucket = config.blobs === undefined ? undefined : await openBucket(config, config.blobs, env);
  try {
    return await transfer({ dataDir: config.dataDir, url, blobs: bucket, now: systemClock.now, ...events });
  } finally {
    bucket?.close();
  }
}
