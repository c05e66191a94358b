import { join } from 'node:path';
import type { LoadSpec } from '@baobab/core/engine/driver.ts';
import type { ChatCapability, TextTokenizer } from '@baobab/core/engine/engine.ts';
import { collectGarbage } from '@baobab/core/runtime/garbage-collection.ts';
import type { LlamaModel, Token } from 'node-llama-cpp';
import { promptTokens } from './chat-request.ts';
import { createBatching } from './decoding/batching.ts';
import { createGrammarStates } from './decoding/grammar-states.ts';
import { createSequences } from './decoding/native-sequence.ts';
import { createSlotPool } from './decoding/slots.ts';
import { measureSteadiness, needsOneThread } from './decoding/steadiness.ts';
import { createThreadGovernor } from './decoding/thread-governor.ts';
import type { LlamaOptions } from './driver.ts';
import { type GenerationDependencies, generate } from './generation.ts';
import { readGgufHeader } from './gguf-header.ts';
import { createChatTemplate } from './prompt/chat-template.ts';
import { createPromptTokenizer } from './text/prompt-tokenizer.ts';
import { createVocabulary } from './text/vocabulary.ts';

/**
 * Prompt tokens evaluated at once. Other requests and aborts wait for a chunk, and reproducible prompts are cached in whole chunks,
 * so it is as small as the hardware allows: on CPUs 64 costs a tenth more than 512, and 128 costs nothing.
 */
const CHUNK_TOKENS = { cpu: 64, gpu: 512 };
/** When no other request is running. */
const LONE_PROMPT_TOKENS = { cpu: 128, gpu: 512 };
/** Keys and values of all sequences to begin with: enough for short conversations. */
const START_BYTES = 128 * 1024 * 1024;
const MIN_START_TOKENS = 512;
/**
 * Each generation leaves a native sampler with a table of the whole vocabulary (0.4 to 2 MB). V8 does not know its size and would
 * let hundreds of them pile up.
 */
const GENERATIONS_PER_COLLECTION = 32;

export interface ChatOptions {
  model: LlamaModel;
  spec: LoadSpec<LlamaOptions>;
  /** Jinja. Default: the template in the model file. */
  chatTemplate?: string | undefined;
  randomSeed: () => number;
  newCallId: () => string;
}

export interface LlamaChat {
  chat: ChatCapability;
  tokenizer: TextTokenizer;
  /** Before the model is disposed of. */
  close(): Promise<void>;
}

export async function createChatCapability({
  model,
  spec,
  chatTemplate,
  randomSeed,
  newCallId,
}: ChatOptions): Promise<LlamaChat> {
  const processor = model.gpuLayers > 0 ? 'gpu' : 'cpu';
  const chunkTokens = CHUNK_TOKENS[processor];
  const governor = createThreadGovernor(spec.threads);
  const { stableOutputs = false } = spec.engine.options;
  const keepsShape = stableOutputs && processor === 'gpu';
  const rowsOfGpu = keepsShape ? 'shape' : 'gaps';
  const batching = createBatching({
    lonePromptTokens: LONE_PROMPT_TOKENS[processor],
    sharedPromptTokens: chunkTokens,
  });
  const rows = spec.parallelSequences + (keepsShape ? 1 : 0);
  const { sequences, close } = await createSequences({
    slug: spec.slug,
    open: (contextSize) =>
      model.createContext({
        contextSize,
        sequences: rows,
        batchSize: Math.max(LONE_PROMPT_TOKENS[processor], rows),
        threads: spec.threads,
        failedCreationRemedy: false,
        // Half-size keys and values: then attention does not divide its work by the place of a row.
        ...(keepsShape && { experimentalKvCacheKeyType: 'Q8_0', experimentalKvCacheValueType: 'Q8_0' }),
      }),
    startLength: startLengthOf(model, spec),
    maxLength: spec.contextLength,
    batching,
    idleRows: processor === 'gpu' ? rowsOfGpu : 'none',
    threads(steps) {
      const threads = needsOneThread(steps) ? 1 : governor.threads();
      model.llama.maxThreads = threads;
      return threads;
    },
  });
  const { tokenizer: metadata } = model.fileInfo.metadata;
  const vocabulary = createVocabulary(metadata.ggml);
  const tokenizer = createPromptTokenizer(model, vocabulary.size);
  const endTokens = endTokensOf(model, vocabulary.size);
  const dependencies: GenerationDependencies = {
    endTokens,
    vocabulary,
    template: createChatTemplate({
      ...templateSources(metadata, chatTemplate),
      bosToken: model.tokens.bosString ?? '',
      eosToken: model.tokens.eosString ?? '',
      controlTexts: vocabulary.controlTexts,
      endTexts: endTokens.map((id) => model.detokenize([id], true)).filter((text) => text !== ''),
    }),
    tokenizer,
    grammars: createGrammarStates(model),
    slots: createSlotPool({ sequences, chunkTokens }),
    batching,
    chunkTokens,
    contextLength: spec.contextLength,
    maxOutputTokens: spec.maxOutputTokens,
    steadiness: stableOutputs ? await measureSteadiness(sequences) : 'none',
    randomSeed,
    newCallId,
    afterGeneration: createCollectionCounter(),
  };
  return {
    chat: {
      generate: (request, call, sink) => generate(dependencies, { request, context: call, sink }),
      countTokens: async (request, { signal }) => (await promptTokens(dependencies, request, signal)).length,
      encode: (request, { signal }) => promptTokens(dependencies, request, signal),
    },
    tokenizer: {
      async encode(text, special, { signal }) {
        const tokens = await promptTokens(dependencies, { prompt: { text } }, signal);
        return special ? tokens : tokenizer.withoutStart(tokens);
      },
      decode: async (ids) => vocabulary.text(tokenizer.ids(ids, ['tokens'])),
    },
    close,
  };
}

/** A GPU with memory of its own has room set aside for the whole context, and works on without a pause. */
function startLengthOf({ gpuLayers, llama: { gpu } }: LlamaModel, spec: LoadSpec<LlamaOptions>): number {
  const { engine, directory, contextLength, parallelSequences } = spec;
  const { tokenBytes, dependsOnRoom = true } = readGgufHeader(join(directory, engine.options.model)) ?? {};
  const sharesMemory = gpuLayers === 0 || (gpu === 'metal' && !engine.options.stableOutputs);
  if (!sharesMemory || tokenBytes === undefined || dependsOnRoom) return contextLength;
  return Math.max(MIN_START_TOKENS, Math.floor(START_BYTES / (tokenBytes * parallelSequences)));
}

function createCollectionCounter(): () => void {
  let generations = 0;
  return () => {
    if (++generations % GENERATIONS_PER_COLLECTION === 0) collectGarbage();
  };
}

/** Model files may hold a second template, for tools. */
function templateSources(metadata: Readonly<Record<string, unknown>>, chatTemplate: string | undefined) {
  const { chat_template: own, 'chat_template.tool_use': ofTools } = metadata;
  if (chatTemplate !== undefined) return { source: chatTemplate };
  return {
    source: typeof own === 'string' ? own : undefined,
    toolSource: typeof ofTools === 'string' ? ofTools : undefined,
  };
}

const endTokensOf = (model: LlamaModel, vocabularySize: number): Token[] =>
  Array.from({ length: vocabularySize }, (_, id) => id as Token).filter((id) => model.isEogToken(id));
