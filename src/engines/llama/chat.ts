import type { LlamaModel, Token } from 'node-llama-cpp';
import type { LoadSpec } from '../driver.ts';
import type { ChatCapability } from '../engine.ts';
import { createBatching } from './decoding/batching.ts';
import { createCollector } from './decoding/collector.ts';
import { createGeneration, type GenerationDependencies } from './decoding/generation.ts';
import { createGrammarStates } from './decoding/grammar-states.ts';
import { createSlotPool } from './decoding/slots.ts';
import { createChatTemplate } from './prompt/chat-template.ts';
import { createPromptTokenizer } from './prompt/prompt.ts';
import { createVocabulary } from './prompt/vocabulary.ts';

/**
 * Prompt tokens evaluated at once. Nobody else gets a turn meanwhile and an abort waits for it, and what is reproducible is cached
 * in whole pieces, so it is as small as the hardware allows: on CPUs 64 costs a tenth more than 512, and 128 nothing.
 */
const PIECE_TOKENS = { cpu: 64, gpu: 512 };
/** For a prompt that nobody waits for. */
const LONE_PROMPT_TOKENS = { cpu: 128, gpu: 512 };

export interface ChatOptions {
  model: LlamaModel;
  spec: LoadSpec;
  /** Jinja; that of the model's file when undefined. */
  chatTemplate?: string | undefined;
  randomSeed: () => number;
  newCallId: () => string;
}

export async function createChatCapability({
  model,
  spec,
  chatTemplate,
  randomSeed,
  newCallId,
}: ChatOptions): Promise<ChatCapability> {
  const processor = model.gpuLayers > 0 ? 'gpu' : 'cpu';
  const pieceTokens = PIECE_TOKENS[processor];
  const batching = createBatching({ lonePromptTokens: LONE_PROMPT_TOKENS[processor], sharedPromptTokens: pieceTokens });
  const context = await model.createContext({
    contextSize: spec.contextLength,
    sequences: spec.parallelSequences,
    batchSize: Math.max(LONE_PROMPT_TOKENS[processor], spec.parallelSequences),
    threads: spec.threads,
    batching: { itemPrioritizationStrategy: batching.strategy },
  });
  const sequences = Array.from({ length: spec.parallelSequences }, () => context.getSequence());
  const { tokenizer: metadata } = model.fileInfo.metadata;
  const vocabulary = createVocabulary(metadata.ggml);
  const dependencies: GenerationDependencies = {
    model,
    vocabulary,
    template: createChatTemplate({
      ...templateSources(metadata, chatTemplate),
      bosToken: model.tokens.bosString ?? '',
      eosToken: model.tokens.eosString ?? '',
      controlTexts: vocabulary.controlTexts,
      endTexts: endTexts(model, vocabulary.size),
    }),
    tokenizer: createPromptTokenizer(model, vocabulary.size),
    grammars: createGrammarStates(model),
    slots: createSlotPool({ sequences, pieceTokens }),
    batching,
    pieceTokens,
    contextLength: context.contextSize,
    maxOutputTokens: spec.maxOutputTokens,
    greedyRunsAlone: processor === 'cpu',
    randomSeed,
    newCallId,
    afterGeneration: createCollector(),
  };
  return { generate: (request, call) => createGeneration(dependencies, request, call) };
}

/** Files may hold a second template, for tools. */
function templateSources(metadata: Readonly<Record<string, unknown>>, chatTemplate: string | undefined) {
  const { chat_template: own, 'chat_template.tool_use': ofTools } = metadata;
  if (chatTemplate !== undefined) return { source: chatTemplate };
  return {
    source: typeof own === 'string' ? own : undefined,
    toolSource: typeof ofTools === 'string' ? ofTools : undefined,
  };
}

function endTexts(model: LlamaModel, vocabularySize: number): string[] {
  const tokens = Array.from({ length: vocabularySize }, (_, id) => id as Token).filter((id) => model.isEogToken(id));
  return tokens.map((id) => model.detokenize([id], true)).filter((text) => text !== '');
}
