import { readFileSync } from 'node:fs';
import { access, chmod, constants, mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { openStore, type Store, type StoreOptions } from '../adapters/store.ts';
import { loadCatalog } from '../catalog/load.ts';
import type { ResolvedConfig } from '../config/load.ts';
import type { ModelEntry } from '../domain/model.ts';
import { StoreUnavailableError } from '../ports/store-errors.ts';

/** The folder of package.json: built-in catalog and bundled weights lie in it. */
export const ROOT = join(import.meta.dirname, '../..');

export const VERSION: string = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version;

/** Only its owner may look into a data directory that we create. */
export async function prepareDataDir({ dataDir }: ResolvedConfig): Promise<void> {
  try {
    await mkdir(join(dataDir, 'blobs'), { recursive: true, mode: 0o700 });
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? 'unknown reason';
    throw new StoreUnavailableError(
      `The data directory ${dataDir} cannot be used (${reason}). Make it writable, or choose another one with --data-dir.`,
      { cause },
    );
  }
}

export async function openConfiguredStore(config: ResolvedConfig, options: StoreOptions = {}): Promise<Store> {
  await prepareDataDir(config);
  const path = join(config.dataDir, 'baobab.sqlite');
  // SQLite gives its other files the rights of this one; the directory may be an older one that others can look into.
  await (await open(path, 'a', 0o600)).close();
  await chmod(path, 0o600);
  return openStore({ kind: 'sqlite', path }, options);
}

export const catalogEntries = (config: ResolvedConfig): ModelEntry[] =>
  loadCatalog([join(ROOT, 'catalog'), ...(config.catalogDir === undefined ? [] : [config.catalogDir])]);
