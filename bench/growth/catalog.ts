import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';

export const UPSTREAMS = 1_000;
/** Has half of the upstreams; the others have a model each. */
export const POPULAR = 'growth/model-0';

const slugOf = (index: number) => `growth/model-${index}`;

/** Writes so many models and upstreams, and returns what serves them. */
export async function writeCatalog(
  dataDir: string,
  options: { url: string; models: number; upstreams: number },
): Promise<Record<string, string>> {
  const catalogDir = join(dataDir, 'models');
  await mkdir(catalogDir, { recursive: true });
  for (let index = 0; index < options.models; index += 1) {
    const model = {
      slug: slugOf(index),
      modality: 'chat',
      description: 'A model of an upstream.',
      languages: ['en'],
      license: 'Apache-2.0',
      created: '2026-01-01',
      context_length: 32_768,
      max_output_tokens: 8_192,
      pricing: { prompt_per_million: 0.15, completion_per_million: 0.3 },
      versions: [{ version: '2026-11-15', engine: { driver: 'remote', task: 'chat' } }],
    };
    await writeFile(join(catalogDir, `model-${index}.yaml`), stringify(model));
  }
  const upstreams = Array.from({ length: options.upstreams }, (_, index) => ({
    model: slugOf(index % 2 === 0 ? 0 : index),
    url: options.url,
    kind: 'vllm',
    api_key: `a-secret-of-an-upstream-${index}`,
  }));
  return { BAOBAB_CATALOG_DIR: catalogDir, BAOBAB_UPSTREAMS: JSON.stringify(upstreams) };
}
