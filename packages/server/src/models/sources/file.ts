import { readdirSync, statSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { SourceSpec, WeightFile } from '@baobab/core/domain/model.ts';
import { digestOfFile } from '../file-content.ts';
import type { VerifiedFile } from '../installed.ts';
import { conditionOf, describeFile, type Manifest, type ManifestFile } from '../manifest.ts';
import { placeInside, resolveLocalPath } from '../model-paths.ts';
import { WeightsError } from '../weights-error.ts';

/** In a directory whose files are not listed. */
const MODEL_FILE = /\.(onnx|onnx_data|gguf|json|txt|model)$/;

type FileSource = Extract<SourceSpec, { kind: 'file' }>;

/** Weights that are already on this machine and stay where they are. */
export interface LocalSource {
  readonly directory: string;
  /** Null: nothing is missing. */
  problem(): string | null;
  totalBytes(): number;
  /**
   * Hashes what was not hashed before in its present state. A file without a sha256 in the catalog may change: its checksum is
   * recorded, so that `recheck` finds damage.
   */
  verify(previous: Manifest | null, signal: AbortSignal): Promise<ManifestFile[]>;
  /** Hashes every file again. Throws for one that is damaged. */
  recheck(previous: Manifest | null, signal: AbortSignal): Promise<{ files: ManifestFile[]; results: VerifiedFile[] }>;
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

  const namesIn = (folder: string, kind: 'isFile' | 'isDirectory'): string[] =>
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry[kind]() && !entry.name.startsWith('.'))
      .map(({ name }) => name);

  /** Files of a directory without a list: what a model consists of, and not everything that its owner keeps there. */
  function modelFiles(): readonly WeightFile[] {
    const named = namedFiles();
    if (named.length > 0 || found === undefined) return named;
    const inner = namesIn(directory, 'isDirectory').flatMap((folder) =>
      namesIn(`${directory}/${folder}`, 'isFile').map((name) => `${folder}/${name}`),
    );
    return [...namesIn(directory, 'isFile'), ...inner].filter((name) => MODEL_FILE.test(name)).map((as) => ({ as }));
  }

  async function hash({ as, sha256 }: WeightFile, signal: AbortSignal): Promise<ManifestFile> {
    const { sha256: actual } = await digestOfFile(placeInside(directory, as), signal);
    if (sha256 !== undefined && actual !== sha256) {
      throw new WeightsError('mismatch', `${as} in ${directory} has sha256 ${actual} instead of ${sha256}`);
    }
    return describeFile(directory, as, actual);
  }

  function usableFiles(): readonly WeightFile[] {
    const trouble = problem();
    if (trouble !== null) throw new WeightsError('absent', `The weights cannot be used: ${trouble}`);
    return modelFiles();
  }

  const recordOf = (previous: Manifest | null, as: string): ManifestFile | undefined =>
    previous?.inPlace === directory ? previous.files.find((file) => file.as === as && file.sha256 !== '') : undefined;

  return {
    directory,
    problem,
    totalBytes: () =>
      modelFiles().reduce(
        (sum, { as }) => sum + (statSync(placeInside(directory, as), { throwIfNoEntry: false })?.size ?? 0),
        0,
      ),
    async verify(previous, signal) {
      const verified: ManifestFile[] = [];
      for (const file of usableFiles()) {
        const record = recordOf(previous, file.as);
        const isKnown = record !== undefined && (file.sha256 ?? record.sha256) === record.sha256;
        verified.push(isKnown && conditionOf(directory, record) === 'unchanged' ? record : await hash(file, signal));
      }
      return verified;
    },
    async recheck(previous, signal) {
      const files: ManifestFile[] = [];
      const results: VerifiedFile[] = [];
      for (const file of usableFiles()) {
        const { as } = file;
        const record = recordOf(previous, as);
        // A new time means that the owner replaced the file, and there is nothing to compare it with.
        const isComparable = record !== undefined && conditionOf(directory, record) === 'unchanged';
        const now = await hash(file, signal);
        if (file.sha256 === undefined && isComparable && record.sha256 !== now.sha256) {
          throw new WeightsError(
            'mismatch',
            `${as} in ${directory} is damaged: it has sha256 ${now.sha256} instead of ${record.sha256}, which was recorded when it was first used`,
          );
        }
        files.push(now);
        const withoutChecksum = isComparable ? 'unchanged' : 'unknown';
        results.push({ as, status: file.sha256 === undefined ? withoutChecksum : 'ok' });
      }
      return { files, results };
    },
  };
}
