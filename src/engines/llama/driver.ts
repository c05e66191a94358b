import { join } from 'node:path';
import { type Static, Type } from 'typebox';
import type { EngineTask } from '../../domain/model.ts';
import { count, type Driver, ENCODER_PLACES, fileName, PROCESS_BYTES, totalFileBytes } from '../driver.ts';
import { type GgufHeader, readGgufHeader } from './gguf-header.ts';

/** llama.cpp's number for it. */
const RANKING = 4;

const fields = { model: fileName };
const options = Type.Object(fields);
export type LlamaOptions = Static<typeof options>;

const settings = {
  llamaThreads: count(0, 'Threads for llama models; 0: cores minus one'),
  llamaSequences: count(4, 'Sequences a llama model decodes side by side', 1),
};
const settingsObject = Type.Object(settings);
type LlamaSettings = Static<typeof settingsObject>;

/** Weights are mapped as they are; the compute buffers are small beside them. */
const WEIGHTS_FACTOR = 1.15;
/**
 * Keys and values of one token: 22 kB for a model of 1 B parameters, several times that for large ones. Measured: TinyLlama with 4
 * sequences 661 MB, estimated 706.
 */
const CACHE_BYTES_PER_TOKEN = 32 * 1024;

/** Where node-llama-cpp looks for the system's libraries and for GPU drivers. */
const LIBRARIES = ['/lib', '/lib64', '/usr', '/opt/cuda', '/opt/rocm', '/etc/os-release'];

/** Encoders name a way of pooling; rerankers the one that ranks. */
function taskOf({ architecture, poolingType }: GgufHeader): EngineTask {
  if (poolingType === RANKING) return 'cross-encoder';
  return poolingType !== undefined || architecture.includes('bert') ? 'embedding' : 'chat';
}

/** GGUF models. */
export const llama = {
  name: 'llama',
  tasks: { chat: fields, embedding: fields, 'cross-encoder': fields },
  settings,
  local: {
    module: new URL('./load.ts', import.meta.url),
    preparation: new URL('./compile/chat-preparation.ts', import.meta.url),
    recognise(fileNames) {
      const model = fileNames.find((name) => name.endsWith('.gguf'));
      return model === undefined ? undefined : { model };
    },
    files: ({ options: { model } }) => [model],
    layout({ task }, { llamaThreads, llamaSequences }, cores) {
      // ggml's threads spin at barriers: without a spare core they wait for each other all the time.
      const threads = llamaThreads || Math.max(1, cores - 1);
      const parallelSequences = task === 'chat' ? llamaSequences : 1;
      return { processes: 1, threads, parallelSequences, places: task === 'chat' ? parallelSequences : ENCODER_PLACES };
    },
    facts({ options: { model } }, directory) {
      const header = readGgufHeader(join(directory, model));
      const { contextLength, embeddingLength: dimensions } = header ?? {};
      return { contextLength, dimensions, task: header && taskOf(header) };
    },
    async memoryBytes({ options: { model } }, { directory, layout, contextLength }) {
      const weightsBytes = await totalFileBytes(directory, [model, `${model}_data`]);
      const cacheBytes = contextLength * layout.parallelSequences * CACHE_BYTES_PER_TOKEN;
      return layout.processes * (PROCESS_BYTES + weightsBytes * WEIGHTS_FACTOR + cacheBytes);
    },
    // node-llama-cpp tries a native library in a child process before it loads it.
    rights: () => ({ readable: LIBRARIES, childProcesses: true }),
  },
} satisfies Driver<LlamaOptions, LlamaSettings>;
