import type { Logger } from '@baobab/core/ports/logger.ts';
import type { VerifiedFile } from './installed.ts';
import { type Manifest, type ManifestFile, readManifest, writeManifest } from './manifest.ts';
import { modelPaths, type StoredModel } from './model-paths.ts';
import { createLocalSource } from './sources/file.ts';

export interface InPlaceWeightsDependencies {
  /** Directory of the store, which records what was verified. */
  directory: string;
  /** Base of relative paths. */
  bundledDirectory: string;
  logger: Pick<Logger, 'warn'>;
}

/** Weights of `file` sources: used where they are, never copied or removed. */
export function createInPlaceWeights({ directory: root, bundledDirectory, logger }: InPlaceWeightsDependencies) {
  function open({ source }: StoredModel) {
    if (source.kind !== 'file') throw new TypeError('Only file sources are used in place');
    return createLocalSource(source, bundledDirectory);
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
