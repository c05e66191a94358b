import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CACHE, type EngineUnderTest, type ServedModel } from './engine.ts';
import { runProgram, startProgram } from './process.ts';

/** TEI is in no package registry: its program is found by `BAOBAB_TEI`, in the cache, or on the PATH. */
const PROGRAM =
  process.env.BAOBAB_TEI ?? [join(CACHE, 'tei', 'text-embeddings-router')].find(existsSync) ?? 'text-embeddings-router';
const MODELS = join(CACHE, 'models');

export const tei: EngineUnderTest = {
  name: 'tei',
  kind: 'tei',
  healthPath: '/health',
  async prepare() {
    const version = await runProgram(PROGRAM, ['--version']).catch(() => {
      throw new Error('no text-embeddings-router: set BAOBAB_TEI to its path');
    });
    if (!existsSync(join(MODELS, 'tiny-rerank'))) throw new Error('no tiny models: try vllm first, which makes them');
    const model = (given: Omit<ServedModel, 'start' | 'hasSense' | 'tools'>): ServedModel => ({
      ...given,
      hasSense: false,
      tools: 'no',
      start: (port) =>
        startProgram(
          PROGRAM,
          [
            '--model-id',
            join(MODELS, given.name),
            '--hostname',
            '127.0.0.1',
            '--port',
            `${port}`,
            '--auto-truncate',
            'false',
          ],
          join(CACHE, `tei-${given.task}.log`),
        ),
    });
    return {
      version: version.trim().split(' ').at(-1) ?? '',
      models: [
        model({ task: 'embedding', name: 'tiny-embedding', contextLength: 512, dimensions: 64 }),
        model({ task: 'rerank', name: 'tiny-rerank', contextLength: 512 }),
      ],
    };
  },
};
