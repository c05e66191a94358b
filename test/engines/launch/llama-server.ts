import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { weights } from '../../models/weights.ts';
import { CACHE, type EngineUnderTest, type ServedModel, type Task } from './engine.ts';
import { runProgram, startProgram, virtualEnvironment } from './process.ts';

const SCRIPTS = join(import.meta.dirname, '../python');
const IMAGE_ENCODER = join(CACHE, 'tiny-mmproj.gguf');
/** Of the small chat model. */
const WIDTH = 576;
const CONTEXT = 2_048;
/** It divides its context among its two slots. */
const SLOT_CONTEXT = CONTEXT / 2;

/** An interpreter with llama-server's code, and with what writes its files. */
export const llamaEnvironment = (): Promise<string> =>
  virtualEnvironment(join(CACHE, 'llama'), 'python3', [['xllamacpp', 'gguf']]);

/** llama-server's own code as a wheel of PyPI, with the small chat model of the catalog. Its image encoder has random weights. */
export const llamaServer: EngineUnderTest = {
  name: 'llama-server',
  kind: 'llama-server',
  healthPath: '/health',
  async prepare() {
    const [small, coder] = await Promise.all(
      ['huggingfacetb/smollm2-135m-instruct', 'qwen/qwen2.5-coder-1.5b-instruct'].map(weights),
    );
    const python = await llamaEnvironment();
    if (!existsSync(IMAGE_ENCODER)) {
      await runProgram(python, [join(SCRIPTS, 'tiny_mmproj.py'), IMAGE_ENCODER, `${WIDTH}`]);
    }
    const version = await runProgram(python, ['-c', 'import xllamacpp; print(xllamacpp.__version__)']);
    const model = (task: Task, directory = '', given: Partial<ServedModel> = {}): ServedModel => ({
      task,
      name: 'model',
      contextLength: SLOT_CONTEXT,
      tools: 'no',
      hasSense: task === 'chat',
      start: (port) =>
        startProgram(
          python,
          [
            ...[join(SCRIPTS, 'llama_server.py'), join(directory, 'model.gguf'), `${port}`],
            ...[given.unfit ? 'chat' : task, `${CONTEXT}`],
            ...(given.vision ? [IMAGE_ENCODER] : []),
          ],
          join(CACHE, `llama-${task}.log`),
        ),
      ...given,
    });
    return {
      version: version.trim(),
      models: [
        model('chat', small?.directory),
        model('chat', coder?.directory, { tools: 'only' }),
        model('embedding', small?.directory, { contextLength: CONTEXT, dimensions: WIDTH }),
        // Its scores mean nothing: it is no reranker.
        model('rerank', small?.directory, { name: 'rerank', contextLength: CONTEXT }),
        model('embedding', small?.directory, { name: 'unfit', dimensions: WIDTH, unfit: true }),
        model('chat', small?.directory, { name: 'vision', vision: true, hasSense: false }),
      ],
    };
  },
};
