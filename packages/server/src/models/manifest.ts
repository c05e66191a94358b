import { readFileSync, statSync } from 'node:fs';
import { readFile, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { openForWriting } from './file-content.ts';
import { MANIFEST_NAME, placeInside } from './model-paths.ts';

export interface ManifestFile {
  as: string;
  bytes: number;
  modifiedMs: number;
  sha256: string;
}

/** Written after all files were verified, so that later starts compare sizes and times instead of hashing. */
export interface Manifest {
  format: 1;
  slug: string;
  version: string;
  /** Directory of files that are used in place. Absent: beside the manifest. */
  inPlace?: string | undefined;
  files: ManifestFile[];
}

const isManifest = (value: unknown): value is Manifest =>
  typeof value === 'object' &&
  value !== null &&
  'format' in value &&
  value.format === 1 &&
  'files' in value &&
  Array.isArray(value.files);

function parse(text: string): Manifest | null {
  try {
    const value: unknown = JSON.parse(text);
    return isManifest(value) ? value : null;
  } catch {
    return null;
  }
}

export function readManifestSync(directory: string): Manifest | null {
  try {
    return parse(readFileSync(join(directory, MANIFEST_NAME), 'utf8'));
  } catch {
    return null;
  }
}

export async function readManifest(directory: string): Promise<Manifest | null> {
  const text = await readFile(join(directory, MANIFEST_NAME), 'utf8').catch(() => null);
  return text === null ? null : parse(text);
}

export async function writeManifest(directory: string, manifest: Manifest): Promise<void> {
  const path = join(directory, MANIFEST_NAME);
  const temporary = `${path}.new`;
  const file = await openForWriting(temporary, 'replace');
  await file.write(Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`));
  await file.finish();
  await rename(temporary, path);
}

export async function describeFile(directory: string, as: string, sha256: string): Promise<ManifestFile> {
  const { size, mtimeMs } = await stat(placeInside(directory, as));
  return { as, bytes: size, modifiedMs: mtimeMs, sha256 };
}

export type FileCondition = 'unchanged' | 'touched' | 'changed';

/** Compares a file with its record without reading it. */
export function conditionOf(directory: string, record: ManifestFile): FileCondition {
  const found = statSync(placeInside(directory, record.as), { throwIfNoEntry: false });
  if (found === undefined || !found.isFile() || found.size !== record.bytes) return 'changed';
  return found.mtimeMs === record.modifiedMs ? 'unchanged' : 'touched';
}
