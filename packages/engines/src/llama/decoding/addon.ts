import type { LlamaContext, LlamaContextSequence, SequenceEvaluateOptions, Token } from 'node-llama-cpp';

/**
 * The native objects inside node-llama-cpp. They are not part of its public interface, so everything that is used of them is here, and
 * is looked for before it is used.
 */
export interface Addon {
  readonly context: AddonContext;
  createSampler(): AddonSampler;
  /** In the form that the sampler takes. `biases`: added to the logits of tokens. */
  samplerConfig(options: SequenceEvaluateOptions, biases: TokenBiases): object;
  /** Copies what the cache holds of a sequence. */
  save(sequenceId: number): Promise<SavedSequence>;
  /** Writes the first `length` tokens of a copy to a sequence that holds nothing. */
  restore(saved: SavedSequence, sequenceId: number, length: number): Promise<void>;
}

/** Of a model whose sequences can be copied as a whole. */
export interface SavedSequence {
  dispose(): void;
}

export type TokenBiases = ReadonlyMap<number, number>;

/** Nothing may be called while a batch is decoded. Samplings may run side by side, and must end before the next batch. */
export interface AddonContext {
  setThreads(threads: number): void;
  initBatch(tokens: number): void;
  /** Returns the indices of the logits, one for each of `outputs`. */
  addToBatch(sequenceId: number, position: number, tokens: Uint32Array, outputs: Uint32Array): Uint32Array;
  decodeBatch(): Promise<void>;
  /** -1: no token. */
  sampleToken(logits: number, sampler: AddonSampler): Promise<Token | -1>;
  sampleToken(logits: number, sampler: AddonSampler, probabilities: true): Promise<TokenWithProbabilities>;
  /** `report`: tokens, whether the highest, the lowest and the chosen logit are reported too, and how many of the highest. */
  sampleToken(
    logits: number,
    sampler: AddonSampler,
    probabilities: false,
    confidence: false,
    report: readonly [tokens: readonly Token[], highest: boolean, lowest: boolean, chosen: boolean, top: number],
    total: true,
  ): Promise<TokenWithLogits>;
  /** False where the model cannot forget a part. */
  removeTokenCellsFromSequence(sequenceId: number, start: number, end: number): boolean;
  disposeSequence(sequenceId: number): void;
}

interface AddonCheckpoint extends SavedSequence {
  init(context: AddonContext, sequenceId: number): Promise<void>;
}

/** Probabilities: token, probability, token, probability, … */
export type TokenWithProbabilities = [token: Token | -1, probabilities: number[] | undefined];

/** Logits: token, logit, token, logit, … `total`: the sum of all probabilities, if that of the highest logit is 1. */
export type TokenWithLogits = [token: Token | -1, _: undefined, _: undefined, logits: number[], total: number];

export interface AddonSampler {
  /** Must not be called while it samples. */
  applyConfig(config: object): void;
  dispose(): void;
}

const CONTEXT_METHODS = [
  'setThreads',
  'initBatch',
  'addToBatch',
  'decodeBatch',
  'sampleToken',
  'removeTokenCellsFromSequence',
  'disposeSequence',
  'restoreCheckpoint',
];
const CHECKPOINT_METHODS = ['init', 'dispose'];
const SAMPLER_METHODS = ['applyConfig', 'dispose'];

/** The version whose inside is known. Another one may keep these objects elsewhere. */
export const LIBRARY_VERSION = '3.22.1';

export function addonOf(context: LlamaContext, sequence: LlamaContextSequence | undefined): Addon {
  const { model } = context;
  const native = member(context, '_ctx');
  const bindings = member(model.llama, '_bindings');
  const Sampler = member(bindings, 'AddonSampler');
  const Checkpoint = member(bindings, 'AddonContextSequenceCheckpoint');
  const nativeModel = member(model, '_model');
  const resolve = member(sequence, '_resolveSamplerConfig');
  const isKnown =
    hasMethods(native, CONTEXT_METHODS) &&
    typeof resolve === 'function' &&
    typeof Sampler === 'function' &&
    hasMethods(Sampler.prototype, SAMPLER_METHODS) &&
    typeof Checkpoint === 'function' &&
    hasMethods(Checkpoint.prototype, CHECKPOINT_METHODS) &&
    nativeModel !== undefined;
  if (!isKnown)
    throw new Error(`another node-llama-cpp than ${LIBRARY_VERSION} is installed: its native objects were not found`);
  return {
    context: native as AddonContext,
    createSampler: () => Reflect.construct(Sampler, [nativeModel]) as AddonSampler,
    // The library's own biases leave out the tokens that end an answer.
    samplerConfig: (options, biases) => ({
      ...(resolve.call(sequence, options) as object),
      ...(biases.size > 0 && {
        tokenBiasKeys: Uint32Array.from(biases.keys()),
        tokenBiasValues: Float32Array.from(biases.values()),
      }),
    }),
    async save(sequenceId) {
      const checkpoint: AddonCheckpoint = Reflect.construct(Checkpoint, []);
      await checkpoint.init(native as AddonContext, sequenceId);
      return checkpoint;
    },
    async restore(saved, sequenceId, length) {
      const restore = member(native, 'restoreCheckpoint') as (...of: unknown[]) => Promise<boolean>;
      if (!(await restore.call(native, saved, length - 1, sequenceId)))
        throw new Error('What a sequence held could not be written back');
    },
  };
}

const member = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;

const hasMethods = (value: unknown, names: readonly string[]) =>
  names.every((name) => typeof member(value, name) === 'function');
