import { statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import type { SourceSpec, WeightFile } from '../../domain/model.ts';
import { digestOfFile } from '../file-content.ts';
import { conditionOf, describeFile, type Manifest, type ManifestFile } from '../manifest.ts';
import { placeInside, resolveLocalPath } from '../model-paths.ts';
import { WeightsError } from '../weights-error.ts';

type FileSource = Extract<SourceSpec, { kind: 'file' }>;

/** Weights that are already on this machine and stay where they are. */
export interface LocalSource {
  readonly directory: string;
  /** Null: nothing is missing. */
  problem(): string | null;
  totalBytes(): number;
  /** Hashes what has a known sha256 and was not verified before in its present state. */
  verify(previous: Manifest | null, signal: AbortSignal): Promise<ManifestFile[]>;
}

export function createLocalSource(spec: FileSource, bundledDirectory: string): LocalSource {
  const path = resolveLocalPath(bundledDirectory, spec.path);
  const found = statSync(path, { throwIfNoEntry: false });
  const directory = found?.isFile() === true ? dirname(path) : path;

  function namedFiles(): readonly WeightFile[] {
    if (found?.isFile() !== true) return spec.files ?? [];
    const name = basename(path);
    const other = spec.files?.find(({ as }) => as !== name);
    if (other !== undefined) {
      throw new WeightsError('invalid', `The source is the single file ${name}, so it cannot be used as '${other.as}'`);
    }
    return spec.files ?? [{ as: name }];
  }

  function problem(): string | null {
    if (found === undefined) return `there is nothing at ${path}`;
    for (const { as, bytes } of namedFiles()) {
      const file = statSync(placeInside(directory, as), { throwIfNoEntry: false });
      if (file?.isFile() !== true) return `${as} is missing in ${directory}`;
      if (bytes !== undefined && file.size !== bytes) return `${as} has ${file.size} bytes instead of ${bytes}`;
    }
    return null;
  }

  async function filesToVerify(): Promise<readonly WeightFile[]> {
    const named = namedFiles();
    if (named.length > 0) return named;
    const entries = await readdir(directory, { withFileTypes: true });
    return entries.filter((entry) => entry.isFile() && !entry.name.startsWith('.')).map(({ name }) => ({ as: name }));
  }

  return {
    directory,
    problem,

    totalBytes: () =>
      namedFiles().reduce(
        (sum, { as }) => sum + (statSync(placeInside(directory, as), { throwIfNoEntry: false })?.size ?? 0),
        0,
      ),

    async verify(previous, signal) {
      const trouble = problem();
      if (trouble !== null) throw new WeightsError('absent', `The weights cannot be used: ${trouble}`);
      const verified: ManifestFile[] = [];
      for (const { as, sha256 } of await filesToVerify()) {
        const record = previous?.inPlace === directory ? previous.files.find((file) => file.as === as) : undefined;
        if (
          record !== undefined &&
          record.sha256 === (sha256 ?? '') &&
          conditionOf(directory, record) === 'unchanged'
        ) {
          verified.push(record);
          continue;
        }
        if (sha256 !== undefined) {
          const { sha256: actual } = await digestOfFile(placeInside(directory, as), signal);
          if (actual !== sha256) {
            throw new WeightsError('mismatch', `${as} in ${directory} has sha256 ${actual} instead of ${sha256}`);
          }
        }
        verified.push(await describeFile(directory, as, sha256 ?? ''));
      }
      return verified;
    },
  };
}
