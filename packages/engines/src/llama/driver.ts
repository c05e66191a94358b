import { join } from 'node:path';
import type { EngineTask } from '@baobab/core/domain/model.ts';
import {
  count,
  type Driver,
  ENCODER_SLOTS,
  fileName,
  type MemoryFacts,
  PROCESS_BYTES,
  slotsWithRoom,
  totalFileBytes,
  type WeightFacts,
} from '@baobab/core/engine/driver.ts';
import { type Static, Type } from 'typebox';
import { type GgufHeader, ggufParts, parseGgufHeader, readGgufHeader } from './gguf-header.ts';

/** llama.cpp's number for it. */
const RANKING = 4;

const fields = { model: fileName };
/** The same seed gives the same text, whatever else runs. */
const stableOutputs = Type.Optional(Type.Boolean());
const options = Type.Object({ ...fields, stableOutputs });
export type LlamaOptions = Static<typeof options>;

const settings = {
  llamaThreads: count(0, 'Threads for llama models; 0: one for each core'),
  llamaSequences: count(
    0,
    'Sequences a llama model decodes side by side; 0: 4, and up to 32 on a GPU with room for them',
  ),
  llamaGpu: Type.Enum(['auto', 'off', 'cuda', 'vulkan', 'metal'], {
    default: 'auto',
    description: 'What llama models run on; auto: a GPU backend that passes its test, else the processor',
  }),
};
const settingsObject = Type.Object(settings);
type LlamaSettings = Static<typeof settingsObject>;

/** For what is computed beside the weights, and for the vocabulary. */
const WEIGHTS_FACTOR = 1.2;
/** Beside what a process takes. */
const RUNTIME_BYTES = 128 * 1024 * 1024;
/** Keys and values of one token, where the weights do not say. */
const CACHE_BYTES_PER_TOKEN = 32 * 1024;
/** A chat model with less than this is of no use. */
const MIN_CONTEXT_LENGTH = 2048;

const SEQUENCES = 4;
const MAX_GPU_SEQUENCES = 32;
/** Share of the memory of GPUs for the keys and values of one model's sequences. */
const CACHE_SHARE = 0.25;
/** Memory of a process that uses a GPU: its driver maps more than the processor's runtime does. */
const GPU_PROCESS_BYTES = 512 * 1024 * 1024;

/** Where node-llama-cpp looks for the system's libraries and for GPU drivers, and how busy the processor is. */
const READABLE = ['/lib', '/lib64', '/usr', '/opt/cuda', '/opt/rocm', '/etc/os-release', '/proc/stat'];

/** Encoders name a way of pooling; rerankers the one that ranks. */
function taskOf({ architecture, poolingType }: GgufHeader): EngineTask {
  if (poolingType === RANKING) return 'cross-encoder';
  return poolingType !== undefined || architecture.includes('bert') ? 'embedding' : 'chat';
}

const factsOf = (header: GgufHeader | undefined): WeightFacts => ({
  contextLength: header?.contextLength,
  dimensions: header?.embeddingLength,
  task: header && taskOf(header),
});

/** A GPU decodes many sequences in the time of one, so it has as many as fit. */
function gpuSequences(videoBytes: number, contextLength: number): number {
  const fitting = Math.floor((videoBytes * CACHE_SHARE) / (contextLength * CACHE_BYTES_PER_TOKEN));
  return Math.max(SEQUENCES, Math.min(MAX_GPU_SEQUENCES, fitting));
}

/** Keys and values of all sequences at full length. */
function cacheBytes({ model, stableOutputs }: LlamaOptions, facts: MemoryFacts, onGpu: boolean): number {
  const { tokenBytes = CACHE_BYTES_PER_TOKEN } = readGgufHeader(join(facts.directory, model)) ?? {};
  // On GPUs one more keeps the shape of batches.
  const sequences = facts.layout.parallelSequences + (stableOutputs && onGpu ? 1 : 0);
  return facts.contextLength * sequences * tokenBytes;
}

async function modelBytes(options: LlamaOptions, facts: MemoryFacts, onGpu: boolean): Promise<number> {
  const weightsBytes = await totalFileBytes(facts.directory, ggufParts(options.model));
  return weightsBytes * WEIGHTS_FACTOR + cacheBytes(options, facts, onGpu);
}

/** GGUF models. */
export const llama = {
  name: 'llama',
  tasks: { chat: { ...fields, stableOutputs }, embedding: fields, 'cross-encoder': fields },
  settings,
  local: {
    module: new URL('./load.ts', import.meta.url),
    accelerators: new URL('./backend/accelerators.ts', import.meta.url),
    preparation: new URL('./compile/grammar-compiler.ts', import.meta.url),
    recognise(fileNames) {
      const model = fileNames.find((name) => name.endsWith('.gguf'));
      return model === undefined ? undefined : { model: ggufParts(model)[0] };
    },
    files: ({ options: { model } }) => ggufParts(model),
    layout({ task }, { llamaThreads, llamaSequences }, { physicalCores, accelerator, contextLength }) {
      // A second thread on a core only competes with the first.
      const threads = llamaThreads || physicalCores;
      const sequences = accelerator.memoryBytes > 0 ? gpuSequences(accelerator.memoryBytes, contextLength) : SEQUENCES;
      const parallelSequences = task === 'chat' ? llamaSequences || sequences : 1;
      const slots = task === 'chat' ? { slots: parallelSequences } : slotsWithRoom(ENCODER_SLOTS);
      return { processes: 1, threads, parallelSequences, ...slots };
    },
    facts: ({ options: { model } }, directory) => factsOf(readGgufHeader(join(directory, model))),
    previewFacts: ({ beginning }) => factsOf(beginning && parseGgufHeader(beginning)),
    async memoryBytes({ options }, facts) {
      const here = (await modelBytes(options, facts, facts.videoShare > 0)) * (1 - facts.videoShare);
      const runtimeBytes = PROCESS_BYTES + RUNTIME_BYTES + (facts.videoShare > 0 ? GPU_PROCESS_BYTES : 0);
      return facts.layout.processes * (runtimeBytes + here);
    },
    async contextBytes({ task, options }, facts) {
      if (task !== 'chat') return 0;
      return cacheBytes(options, facts, facts.videoShare > 0) * (1 - facts.videoShare);
    },
    withLessContext({ layout, contextLength, ...facts }) {
      const { parallelSequences } = layout;
      if (parallelSequences > 1) {
        const fewer = parallelSequences - 1;
        return { ...facts, contextLength, layout: { ...layout, parallelSequences: fewer, slots: fewer } };
      }
      const shorter = Math.floor(contextLength / 2);
      return shorter < MIN_CONTEXT_LENGTH ? undefined : { ...facts, layout, contextLength: shorter };
    },
    videoBytes: ({ options }, facts) => modelBytes(options, facts, true),
    // node-llama-cpp tries a native library in a child process before it loads it.
    rights: () => ({ readable: READABLE, childProcesses: true }),
  },
} satisfies Driver<LlamaOptions, LlamaSettings>;
