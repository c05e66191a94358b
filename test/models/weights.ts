import { homedir } from 'node:os';
import { join } from 'node:path';
import type { EngineSpec } from '../../packages/core/src/domain/model.ts';
import { parseReference } from '../../packages/core/src/domain/slug.ts';
import type { LoadSpec } from '../../packages/core/src/engine/driver.ts';
import { systemClock } from '../../packages/core/src/runtime/clock.ts';
import { loadCatalog } from '../../packages/server/src/catalog/load.ts';
import { createWeightsStore } from '../../packages/server/src/models/store.ts';

const ROOT = join(import.meta.dirname, '../..');
const entries = loadCatalog([join(ROOT, 'catalog')]);

/**
 * What a driver needs to load a model of the catalog, with its weights pulled if they are not there yet. They are kept between runs
 * in `BAOBAB_MODELS_DIR`. `reference` is a slug or a pin; `Options` are those of the driver that the catalog names.
 */
export async function weights<Options>(reference: string): Promise<LoadSpec<Options>> {
  const { slug, version: pin } = parseReference(reference) ?? {};
  const model = entries.find((entry) => entry.slug === slug);
  const version = model?.versions.find((each) => each.version === (pin ?? model.recommended));
  if (!slug || !model || !version?.source) throw new Error(`the catalog has no weights for '${reference}'`);
  await using store = createWeightsStore({
    directory: process.env.BAOBAB_MODELS_DIR ?? join(homedir(), '.cache/baobab/models'),
    hfEndpoint: 'https://huggingface.co',
    mavenRepository: 'https://repo1.maven.org/maven2',
    pullOnUse: true,
    retryUnavailableSeconds: 60,
    environment: process.env,
    workingDirectory: ROOT,
    clock: systemClock,
    logger: { info: () => {}, warn: () => {} },
  });
  const { directory } = await store.ensure({ slug, version: version.version, source: version.source });
  return {
    slug,
    version: version.version,
    engine: version.engine as EngineSpec<Options>,
    directory,
    contextLength: model.contextLength,
    dimensions: model.dimensions,
    maxOutputTokens: model.maxOutputTokens,
    threads: 1,
    parallelSequences: 1,
    backend: 'cpu',
  };
}
