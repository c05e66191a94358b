import { readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { digestOfFile } from './file-content.ts';
import { conditionOf, describeFile, type Manifest, readManifest, readManifestSync, writeManifest } from './manifest.ts';
import { tryLock } from './model-lock.ts';
import { LOCKS_NAME, type ModelPaths, placeInside, STAGING_NAME, type StoredModel } from './model-paths.ts';

export interface InstalledWeights {
  slug: string;
  version: string;
  bytes: number;
  files: number;
}

export interface VerifiedFile {
  as: string;
  /**
   * Without a checksum in the catalog: `unknown` when it is hashed for the first time, which records its checksum, and
   * `unchanged` when it is still the same.
   */
  status: 'ok' | 'mismatch' | 'missing' | 'unknown' | 'unchanged';
}

type Presence = { condition: 'whole' | 'touched' | 'absent'; bytes: number };

const ABSENT: Presence = { condition: 'absent', bytes: 0 };

/** Whether the directory has the files of the catalog entry, by its manifest and without reading the files. */
export function inspect(model: StoredModel, paths: ModelPaths): Presence {
  const manifest = readManifestSync(paths.directory);
  if (manifest === null) return ABSENT;
  let condition: Presence['condition'] = 'whole';
  for (const file of model.source.files ?? []) {
    const record = manifest.files.find(({ as }) => as === file.as);
    if (record === undefined || (file.sha256 !== undefined && file.sha256 !== record.sha256)) return ABSENT;
    const found = conditionOf(paths.directory, record);
    if (found === 'changed') return ABSENT;
    if (found === 'touched') condition = 'touched';
  }
  return { condition, bytes: sizeOf(manifest) };
}

export const sizeOf = (manifest: Manifest): number => manifest.files.reduce((sum, { bytes }) => sum + bytes, 0);

/** Hashes every file again. Removes changed files, so that they cannot be used. */
export async function rehash(paths: ModelPaths, signal: AbortSignal): Promise<VerifiedFile[]> {
  const manifest = await readManifest(paths.directory);
  if (manifest === null) return [];
  const results: VerifiedFile[] = [];
  const files = [];
  for (const record of manifest.files) {
    const path = placeInside(paths.directory, record.as);
    const present = (await stat(path).catch(() => null))?.isFile() === true;
    const ok = present && (await digestOfFile(path, signal)).sha256 === record.sha256;
    if (present && !ok) await rm(path);
    results.push({ as: record.as, status: ok ? 'ok' : present ? 'mismatch' : 'missing' });
    files.push(ok ? await describeFile(paths.directory, record.as, record.sha256) : record);
  }
  await writeManifest(paths.directory, { ...manifest, files });
  return results;
}

export async function uninstall(paths: ModelPaths): Promise<{ freedBytes: number }> {
  const manifest = await readManifest(paths.directory);
  const freedBytes = manifest === null || manifest.inPlace !== undefined ? 0 : sizeOf(manifest);
  await rm(paths.staging, { recursive: true, force: true });
  // Renamed first, so that it disappears at once.
  const trash = `${paths.staging}.removed`;
  await rename(paths.directory, trash).catch(() => {});
  await rm(paths.directory, { recursive: true, force: true });
  await rm(trash, { recursive: true, force: true });
  for (const parent of [dirname(paths.directory), dirname(dirname(paths.directory))])
    await rmdir(parent).catch(() => {});
  return { freedBytes };
}

const directoriesIn = async (path: string): Promise<string[]> => {
  const entries = await readdir(path, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
    .map(({ name }) => join(path, name));
};

async function* installedManifests(storeDirectory: string): AsyncGenerator<{ directory: string; manifest: Manifest }> {
  for (const provider of await directoriesIn(storeDirectory)) {
    for (const name of await directoriesIn(provider)) {
      for (const directory of await directoriesIn(name)) {
        const manifest = await readManifest(directory);
        if (manifest !== null) yield { directory, manifest };
      }
    }
  }
}

export async function listInstalled(storeDirectory: string): Promise<InstalledWeights[]> {
  const installed: InstalledWeights[] = [];
  for await (const { manifest } of installedManifests(storeDirectory)) {
    const { slug, version, files } = manifest;
    installed.push({ slug, version, bytes: sizeOf(manifest), files: files.length });
  }
  return installed;
}

/** Paths of stored files by content: several models may share files. */
export async function installedByHash(storeDirectory: string): Promise<Map<string, string>> {
  const byHash = new Map<string, string>();
  for await (const { directory, manifest } of installedManifests(storeDirectory)) {
    if (manifest.inPlace !== undefined) continue;
    for (const { as, sha256 } of manifest.files) byHash.set(sha256, placeInside(directory, as));
  }
  return byHash;
}

const STALE_MS = 7 * 24 * 3600 * 1000;

/** Removes old leftovers of interrupted pulls. Newer ones are kept for resuming. */
export async function sweepStaging(storeDirectory: string, nowMs: number): Promise<void> {
  const root = join(storeDirectory, STAGING_NAME);
  for (const name of await readdir(root).catch(() => [])) {
    const staging = join(root, name);
    const touched = await Promise.all(
      [staging, join(staging, 'pieces')].map((path) =>
        stat(path).then(
          ({ mtimeMs }) => mtimeMs,
          () => 0,
        ),
      ),
    );
    if (nowMs - Math.max(...touched) < STALE_MS) continue;
    await using lock = tryLock(join(storeDirectory, LOCKS_NAME, name));
    if (lock !== null) await rm(staging, { recursive: true, force: true });
  }
}
