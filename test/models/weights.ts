import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { EngineSpec } from '../../src/domain/model.ts';
import type { LoadSpec } from '../../src/engines/driver.ts';

/** Provisional: directories of extracted weights, until the catalog and the weights store answer here. */
const ROOT = process.env.BAOBAB_TEST_WEIGHTS ?? '/tmp/weights-extracted';

type Known = Pick<LoadSpec, 'contextLength' | 'dimensions'> & { folder: string; engine: EngineSpec };

const encoder = (folder: string, model: string, pooling: 'mean' | 'cls'): Known => ({
  folder,
  engine: { driver: 'onnx', task: 'embedding', model: `onnx/${model}`, tokenizer: 'tokenizer.json', pooling },
  contextLength: 512,
  dimensions: 384,
});

const bge = encoder('bge-small', 'model_quantized.onnx', 'cls');

const KNOWN: Record<string, Known> = {
  'sentence-transformers/all-minilm-l6-v2': encoder('minilm-int8', 'model_quantized.onnx', 'mean'),
  'sentence-transformers/all-minilm-l6-v2-fp32': encoder('minilm-fp32', 'model.onnx', 'mean'),
  'thenlper/gte-small': encoder('gte-small', 'model.onnx', 'mean'),
  'baai/bge-small-en-v1.5': bge,
  'baobab/rerank-small': {
    ...bge,
    engine: {
      driver: 'onnx',
      task: 'late-interaction',
      model: 'onnx/model_quantized.onnx',
      tokenizer: 'tokenizer.json',
    },
    dimensions: null,
  },
};

export async function weights(slug: string): Promise<LoadSpec> {
  const known = KNOWN[slug];
  if (!known) throw new Error(`no test weights are known for '${slug}'`);
  const directory = join(ROOT, known.folder);
  if (!existsSync(directory)) throw new Error(`the weights of '${slug}' are not there: set BAOBAB_TEST_WEIGHTS`);
  const { folder: _, ...spec } = known;
  return { slug, version: '2026-01-01', directory, maxOutputTokens: null, threads: 1, parallelSequences: 1, ...spec };
}
