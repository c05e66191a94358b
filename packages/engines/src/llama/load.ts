import { randomInt, randomUUID } from 'node:crypto';
import path from 'node:path';
import type { EngineTask } from '@baobab/core/domain/model.ts';
import type { LoadSpec } from '@baobab/core/engine/driver.ts';
import type {
  ComputeDevice,
  EmbeddingCapability,
  EmbeddingRequest,
  EngineModel,
  RerankCapability,
  TextInput,
  TextTokenizer,
} from '@baobab/core/engine/engine.ts';
import { cutBetween, cutTokens, pairIn, roomIn, tokenLimit } from '@baobab/core/engine/truncation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import {
  getLlama,
  type Llama,
  type LlamaEmbeddingContext,
  LlamaLogLevel,
  type LlamaModel,
  type Token,
} from 'node-llama-cpp';
import { backendOptions } from './backend/local-builds.ts';
import { createChatCapability } from './chat.ts';
import { SEEDS } from './decoding/sampling.ts';
import { createThreadGovernor } from './decoding/thread-governor.ts';
import type { LlamaOptions } from './driver.ts';
import { checkGguf, ggufParts } from './gguf-header.ts';
import { createTokenizerSlice } from './text/prompt-tokenizer.ts';
import { Turns } from './turns.ts';

/** Loads a GGUF model. Runs in an engine process. */
export async function load(spec: LoadSpec<LlamaOptions>): Promise<EngineModel> {
  const { task, options } = spec.engine;
  const llama = await getLlama({
    ...backendOptions(spec.backend),
    // Lowered before each evaluation to what is of use at that moment.
    maxThreads: spec.threads,
    progressLogs: false,
    logLevel: LlamaLogLevel.error,
  });
  try {
    for (const part of ggufParts(options.model)) checkGguf(path.join(spec.directory, part));
    const before = await llama.getVramState();
    const model = await llama.loadModel({
      modelPath: path.join(spec.directory, options.model),
      // As many layers as fit beside the contexts; the others stay on the processor.
      gpuLayers: { fitContext: { contextSize: spec.contextLength * spec.parallelSequences } },
      // The processor's kernels want most weights in another order. Those of the file would be in memory beside them.
      ...(llama.gpu === false && { useMmap: false }),
    });
    const { close, ...capabilities } = await capability(task, model, spec);
    return {
      tokenizer: createTokenizer(model),
      ...capabilities,
      device: await deviceOf(llama, model, before.used),
      countTokens: async (text) => model.tokenize(text, false).length,
      async [Symbol.asyncDispose]() {
        await close?.();
        await release(llama, model);
      },
    };
  } catch (error) {
    await llama.dispose();
    // The library's own messages do not mention the file.
    const detail = error instanceof Error ? error.message : String(error);
    const cause = new Error(`${options.model} is damaged, of an unknown kind or too large: ${detail}`, {
      cause: error,
    });
    throw errors.modelUnavailable(spec.slug, 'its weights could not be loaded', cause);
  }
}

async function capability(
  task: EngineTask,
  model: LlamaModel,
  spec: LoadSpec<LlamaOptions>,
): Promise<Pick<EngineModel, 'chat' | 'embedding' | 'rerank' | 'tokenizer'> & { close?: () => Promise<void> }> {
  switch (task) {
    case 'embedding':
      return { embedding: await createEmbeddingCapability(model, spec) };
    case 'cross-encoder':
      return { rerank: await createRerankCapability(model, spec) };
    case 'chat':
      return createChatCapability({
        model,
        spec,
        randomSeed: () => randomInt(SEEDS),
        newCallId: () => `call_${randomUUID().replaceAll('-', '')}`,
      });
    default:
      throw new Error(`the llama driver has no task '${task}'`);
  }
}

/** Of an encoder. */
function createTokenizer(model: LlamaModel): TextTokenizer {
  const { bos, eos, shouldPrependBosToken, shouldAppendEosToken } = model.tokens;
  return {
    async encode(text, special) {
      const tokens = model.tokenize(text, false);
      if (!special) return tokens;
      const [first, last] = [shouldPrependBosToken ? bos : null, shouldAppendEosToken ? eos : null];
      return [...(first === null ? [] : [first]), ...tokens, ...(last === null ? [] : [last])];
    },
    decode: async (ids) => model.detokenize([...ids] as Token[], true),
  };
}

/** `usedBefore`: memory of the GPUs that was in use before the model was loaded. */
async function deviceOf(llama: Llama, model: LlamaModel, usedBefore: number): Promise<ComputeDevice> {
  const { used } = await llama.getVramState();
  const { gpuLayers } = model;
  return {
    backend: gpuLayers > 0 && llama.gpu !== false ? llama.gpu : 'cpu',
    names: gpuLayers > 0 ? await llama.getGpuDeviceNames() : [],
    gpuLayers,
    layers: model.fileInsights.totalLayers,
    videoBytes: gpuLayers > 0 ? Math.max(0, used - usedBefore) : 0,
  };
}

async function release(llama: Llama, model: LlamaModel): Promise<void> {
  await model.dispose();
  await llama.dispose();
}

/** The library refuses inputs that fill its context. */
const SPARE_TOKENS = 1;

/** GGUF embedding models. One input at a time, of each account in turn: llama.cpp gains nothing from batches of such inputs on a CPU. */
async function createEmbeddingCapability(model: LlamaModel, spec: LoadSpec): Promise<EmbeddingCapability> {
  const context = await model.createEmbeddingContext({
    contextSize: spec.contextLength + SPARE_TOKENS,
    // An encoder reads its whole input at once, so a batch must hold the longest one.
    batchSize: spec.contextLength,
    threads: spec.threads,
  });
  const withMarks = takeOverMarks(context);
  const idsOf = (input: TextInput): readonly Token[] =>
    typeof input === 'string' ? withMarks(model.tokenize(input)) : (input as readonly number[] as readonly Token[]);
  const aroundOf = createMarkCount(model, withMarks);
  const governor = createThreadGovernor(spec.threads);
  const turns = new Turns();
  return {
    async embed(request: EmbeddingRequest<TextInput>, caller) {
      const { inputs, dimensions = model.embeddingVectorSize, truncation } = request;
      const { signal } = caller;
      const limit = tokenLimit(truncation ?? { side: 'end' }, spec.contextLength);
      let truncated = 0;
      const slice = createTokenizerSlice(signal);
      const sequences: (readonly Token[])[] = [];
      for (const [index, input] of inputs.entries()) {
        const ids = idsOf(input);
        if (ids.length <= limit) sequences.push(ids);
        else {
          if (truncation === undefined) throw errors.contextTooLong(['inputs', index], ids.length, limit);
          truncated += 1;
          sequences.push(tokensOf(cutBetween(Int32Array.from(ids), limit, { ...truncation, ...aroundOf(ids) })));
        }
        if (slice.isOver()) await slice.next();
      }
      const vectors = new Float32Array(inputs.length * dimensions);
      for (const [index, ids] of sequences.entries()) {
        const { vector } = await turns.run(caller, ids.length, () => {
          if (signal.aborted) throw errors.clientCancelled();
          model.llama.maxThreads = governor.threads();
          return context.getEmbeddingFor([...ids]);
        });
        vectors.set(unitVector(vector, dimensions), index * dimensions);
      }
      return { vectors, dimensions, tokens: sequences.map(({ length }) => length), truncated };
    },
  };
}

/**
 * The library adds the tokens of the start and the end to token ids too, unless they have them. Returns what adds them, for texts; the
 * context no longer does.
 */
export function takeOverMarks(context: LlamaEmbeddingContext): (ids: Token[]) => Token[] {
  const inner = context as unknown as { _prepareInput?(ids: Token[]): void };
  const addMarks = inner._prepareInput;
  if (addMarks === undefined)
    throw new Error('This version of node-llama-cpp prepares the inputs of embeddings elsewhere');
  inner._prepareInput = () => {};
  return (ids) => {
    addMarks.call(context, ids);
    return ids;
  };
}

const tokensOf = (ids: Int32Array): Token[] => [...ids] as number[] as Token[];

/** How many marks are around the tokens of an input. Client ids have them only if the client has put them there. */
function createMarkCount(model: LlamaModel, withMarks: (ids: Token[]) => Token[]) {
  const bare = model.tokenize('a');
  const marked = withMarks([...bare]);
  const first = marked.indexOf(bare[0] as Token);
  const last = marked.length - bare.length - first;
  return (ids: readonly Token[]) =>
    withMarks([...ids]).length === ids.length ? { first, last } : { first: 0, last: 0 };
}

/** The leading dimensions, of unit length. */
function unitVector(vector: readonly number[], dimensions: number): Float32Array {
  const cut = Float32Array.from(vector.slice(0, dimensions));
  const length = Math.hypot(...cut);
  return length === 0 ? cut : cut.map((value) => value / length);
}

/** GGUF models with a ranking head: query and document are read together. */
async function createRerankCapability(model: LlamaModel, spec: LoadSpec): Promise<RerankCapability> {
  const context = await model.createRankingContext({
    contextSize: spec.contextLength + SPARE_TOKENS,
    batchSize: spec.contextLength,
    threads: spec.threads,
  });
  /** As the library reads texts. */
  const idsOf = (text: string): Int32Array => Int32Array.from(model.tokenize(text, false, 'trimLeadingSpace'));
  const governor = createThreadGovernor(spec.threads);
  const turns = new Turns();
  return {
    async rerank({ query, documents, truncation, maxDocumentTokens }, caller) {
      const { signal } = caller;
      const slice = createTokenizerSlice(signal);
      const scores = new Float32Array(documents.length);
      const limit = tokenLimit(truncation ?? { side: 'end' }, spec.contextLength);
      const queryIds = idsOf(query);
      const pairs: { query: Token[]; document: Token[]; length: number }[] = [];
      let truncated = 0;
      for (const [index, document] of documents.entries()) {
        const ids = idsOf(document);
        const start = cutTokens(ids, maxDocumentTokens ?? ids.length, 'end');
        const most = { query: queryIds.length, document: start.length };
        const length = context.calculateInputLength(tokensOf(queryIds), tokensOf(start));
        const added = length - most.query - most.document;
        if (length > limit) {
          if (truncation === undefined) throw errors.contextTooLong(['documents', index], length, limit);
          Object.assign(most, pairIn(roomIn(limit, added, 2), most.query, most.document));
        }
        if (length > limit || start.length < ids.length) truncated += 1;
        const side = truncation?.side ?? 'end';
        pairs.push({
          query: tokensOf(cutTokens(queryIds, most.query, side)),
          document: tokensOf(cutTokens(start, most.document, side)),
          length: added + most.query + most.document,
        });
        if (slice.isOver()) await slice.next();
      }
      for (const [index, pair] of pairs.entries()) {
        scores[index] = await turns.run(caller, pair.length, () => {
          if (signal.aborted) throw errors.clientCancelled();
          model.llama.maxThreads = governor.threads();
          return context.rank(pair.query, pair.document);
        });
      }
      return { scores, tokens: pairs.reduce((sum, { length }) => sum + length, 0), truncated };
    },
  };
}
