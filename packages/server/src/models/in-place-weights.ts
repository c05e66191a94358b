import { readdirSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute } from 'node:path';
import type { SourceSpec, WeightFile } from '@baobab/core/domain/model.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { digestOfFile } from './file-content.ts';
import type { VerifiedFile } from './installed.ts';
import {
  conditionOf,
  describeFile,
  type Manifest,
  type ManifestFile,
  readManifest,
  writeManifest,
} from './manifest.ts';
import { modelPaths, placeInside, type StoredModel } from './model-paths.ts';
import { WeightsError } from './weights-error.ts';

export interface InPlaceWeightsDependencies {
  /** Directory of the store, which records what was verified. */
  directory: string;
  logger: Pick<Logger, 'warn'>;
}

/** Weights of `file` sources: used where they are, never copied or removed. */
export function createInPlaceWeights({ directory: root, logger }: InPlaceWeightsDependencies) {
  function open({ source }: StoredModel) {
    if (source.kind !== 'file') throw new TypeError('Only file sources are used in place');
    return createLocalSource(source);
  }

  const recordedFor = (model: StoredModel) => readManifest(modelPaths(root, model).directory);

  async function record(
    model: StoredModel,
    { previous, inPlace, files }: { previous: Manifest | null; inPlace: string; files: ManifestFile[] },
  ): Promise<void> {
    const { slug, version } = model;
    const manifest: Manifest = { format: 1, slug, version, inPlace, files };
    if (JSON.stringify(previous) === JSON.stringify(manifest)) return;
    // Without it the next start hashes again.
    await writeManifest(modelPaths(root, model).directory, manifest).catch((error: unknown) =>
      logger.warn({ model: slug, error }, 'failed to record the verification of weights'),
    );
  }

  return {
    open,

    /** The directory of the verified files. */
    async use(model: StoredModel, signal: AbortSignal): Promise<{ directory: string }> {
      const local = open(model);
      const previous = await recordedFor(model);
      const files = await local.verify(previous, signal);
      await record(model, { previous, inPlace: local.directory, files });
      return { directory: local.directory };
    },

    async recheck(model: StoredModel, signal: AbortSignal): Promise<VerifiedFile[]> {
      const local = open(model);
      const previous = await recordedFor(model);
      const { files, results } = await local.recheck(previous, signal);
      await record(model, { previous, inPlace: local.directory, files });
      return results;
    },
  };
}

export type InPlaceWeights = ReturnType<typeof createInPlaceWeights>;

/** In a directory whose files are not listed. */
const MODEL_FILE = /\.(onnx|onnx_data|gguf|json|txt|model)$/;

type FileSource = Extract<SourceSpec, { kind: 'file' }>;

/** Weights that are already on this machine and stay where they are. */
interface LocalSource {
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

function createLocalSource(spec: FileSource): LocalSource {
  const { path } = spec;
  if (!isAbsolute(path)) throw new WeightsError('invalid', `The path '${path}' of the source is not absolute`);
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
