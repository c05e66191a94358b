import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isSlug } from '@baobab/core/domain/slug.ts';
import { stringify } from 'yaml';
import { CatalogError, loadCatalog } from '../load.ts';
import type { ModelDraft } from './draft.ts';
import { AddError } from './reference.ts';

/** Models that were added while the service runs, below the data directory. */
export interface AddedFolders {
  catalog: string;
  upstreams: string;
}

export const addedFolders = (dataDir: string): AddedFolders => ({
  catalog: join(dataDir, 'catalog'),
  upstreams: join(dataDir, 'upstreams'),
});

const fileOf = (folder: string, slug: string): string => join(folder, `${slug}.yaml`);

/** Slugs become paths: refuse anything else here. */
export const isAdded = ({ catalog, upstreams }: AddedFolders, slug: string): boolean =>
  isSlug(slug) && (existsSync(fileOf(catalog, slug)) || existsSync(fileOf(upstreams, slug)));

export interface WriteOptions {
  /** The catalog describes the model already. */
  known: boolean;
  /** Called when nothing but the disk can prevent the change any more. */
  beforeChange(): Promise<void>;
}

/** Checks the entry as every catalog file is checked, then puts it in place. */
export async function writeDraft(
  folders: AddedFolders,
  { entry, upstream }: ModelDraft,
  { known, beforeChange }: WriteOptions,
): Promise<void> {
  const { slug } = entry;
  if (!isSlug(slug)) throw new AddError(`'${slug}' is not a slug such as acme/writer-8b`);
  const scratch = `${folders.catalog}-${randomUUID()}`;
  const draft = fileOf(scratch, slug);
  try {
    await mkdir(dirname(draft), { recursive: true, mode: 0o700 });
    await writeFile(draft, stringify(entry));
    loadCatalog([scratch]);
    await beforeChange();
    if (upstream !== undefined) await replace(fileOf(folders.upstreams, slug), stringify(upstream));
    if (!known) await replace(fileOf(folders.catalog, slug), stringify(entry));
  } catch (error) {
    if (!(error instanceof CatalogError)) throw error;
    throw new AddError(`its catalog entry would not be valid: ${error.message.replaceAll(`${draft}:`, 'line ')}`);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Complete or not at all: a running server may read the folder at any time. */
async function replace(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const temporary = `${file}.${randomUUID()}`;
  await writeFile(temporary, text, { mode: 0o600 });
  await rename(temporary, file);
}

/** Returns false for a model that was not added. */
export async function removeAdded(folders: AddedFolders, slug: string): Promise<boolean> {
  if (!isAdded(folders, slug)) return false;
  await rm(fileOf(folders.catalog, slug), { force: true });
  await rm(fileOf(folders.upstreams, slug), { force: true });
  return true;
}
