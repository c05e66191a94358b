import { existsSync, statSync } from 'node:fs';
import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';
import type { ModelEntry } from '@baobab/core/domain/model.ts';
import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import type { Secret } from '@baobab/core/ports/secret.ts';
import { makeFolder } from '@baobab/core/runtime/make-folder.ts';
import { systemCode, systemReason } from '@baobab/core/runtime/system-reason.ts';
import { runInTimeSlices } from '@baobab/core/runtime/time-slices.ts';
import { openStore, type Store, type StoreOptions, type StoreSettings } from '../adapters/store.ts';
import { addedFolders } from '../catalog/adding/catalog-folder.ts';
import { BUILT_IN_CATALOG } from '../catalog/built-in.ts';
import { readCatalog } from '../catalog/load.ts';
import { readAddedUpstreams } from '../config/added-upstreams.ts';
import type { ResolvedConfig } from '../config/load.ts';

/** Set aside beside the database: more than revoking a key adds to its files. */
const RESERVE_BYTES = 4_194_304;

/** A new data directory is readable by its owner only. */
export async function prepareDataDir({ dataDir }: ResolvedConfig): Promise<void> {
  try {
    await makeFolder(join(dataDir, 'blobs'), { mode: 0o700 });
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    const problem =
      systemCode(cause) === 'ENOENT'
        ? 'cannot hold files. Choose'
        : `cannot be used: ${systemReason(cause)}. Make it writable, or choose`;
    throw new StoreUnavailableError(`The data directory ${dataDir} ${problem} another one with --data-dir.`, { cause });
  }
}

/** What each of several workers has for itself. */
export const workerFolder = ({ dataDir }: Pick<ResolvedConfig, 'dataDir'>, number: number): string =>
  join(dataDir, 'workers', `${number}`);

function storeSettings({ dataDir, store }: ResolvedConfig, address?: Secret): StoreSettings {
  if (store !== undefined) return { kind: 'postgres', url: address ?? store };
  return { kind: 'sqlite', path: join(dataDir, 'baobab.sqlite'), reserveBytes: RESERVE_BYTES };
}

/** Whether a store was created in the data directory, or is configured elsewhere. Throws when this user may not look. */
export function hasStore(config: ResolvedConfig): boolean {
  const settings = storeSettings(config);
  if (settings.kind !== 'sqlite') return true;
  try {
    return statSync(settings.path, { throwIfNoEntry: false }) !== undefined;
  } catch (cause) {
    throw new StoreUnavailableError(
      `The data directory ${config.dataDir} cannot be read: ${systemReason(cause)}. Run the command as the user of the server, or name another one with --data-dir.`,
      { cause },
    );
  }
}

/** `address`: that of PostgreSQL, where it may change. */
export async function openConfiguredStore(
  config: ResolvedConfig,
  { address, ...options }: StoreOptions & { address?: Secret | undefined } = {},
): Promise<Store> {
  await prepareDataDir(config);
  return openStore(storeSettings(config, address), options);
}

/** The built-in models, those of `catalog_dir` and those that were added while the service ran; later ones replace earlier ones. */
export function catalogEntries(config: ResolvedConfig): Promise<ModelEntry[]> {
  const { catalog: added } = addedFolders(config.dataDir);
  const own = config.catalogDir === undefined ? [] : [config.catalogDir];
  return runInTimeSlices(readCatalog([BUILT_IN_CATALOG, ...own, ...(existsSync(added) ? [added] : [])]));
}

/** A server may have a catalog that its configuration names, and a command that was not given the configuration does not see it. */
export const lookedInText = ({ catalogDir, dataDir }: ResolvedConfig): string =>
  catalogDir === undefined
    ? `Only the built-in models and those added to ${dataDir} were searched; if the server has a catalog_dir, name its configuration with --config.`
    : `The built-in models, those of ${catalogDir} and those added to ${dataDir} were searched.`;

/** The configured upstreams and those that were added while the service ran. */
export const allUpstreams = (config: ResolvedConfig): ResolvedConfig['upstreams'] => [
  ...config.upstreams,
  ...readAddedUpstreams(addedFolders(config.dataDir).upstreams),
];
