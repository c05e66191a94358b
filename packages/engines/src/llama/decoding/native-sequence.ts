import type { Sharing } from '@baobab/core/runtime/work.ts';
import type { EvaluationPriority, LlamaGrammarEvaluationState, Token } from 'node-llama-cpp';
import type { Addon, AddonSampler, TokenBiases, TokenWithProbabilities } from './addon.ts';
import { ALONE, type Batching, isSteadyStep } from './batching.ts';
import { createDecodeLoop, type DecodeLoop, type IdleRow, type Step } from './decode-loop.ts';
import { GrowingContext, type GrowingContextOptions } from './growing-context.ts';
import type { EvaluatedToken, GenerateOptions, ScoreOptions, Sequence, TokenScore, TokenSteps } from './sequence.ts';

export interface ContextSequences {
  /** Without the one that the shape of batches takes. */
  sequences: readonly Sequence[];
  /** Waits for what is being computed, and disposes of the context. */
  close(): Promise<void>;
}

export interface ContextSequencesOptions extends GrowingContextOptions {
  batching: Batching;
  /** Threads for a batch. */
  threads(steps: readonly Step[]): number;
  /**
   * Rows of sequences that have nothing to compute, where they cost little:
   * - `gaps`: between the steps of a batch, so that llama.cpp computes them in one pass.
   * - `shape`: batches with reproducible steps also have one row of every sequence. The last sequence is kept for it, with a context that is
   *   as long as any, because kernels are chosen by the longest context in a batch too.
   */
  idleRows?: 'none' | 'gaps' | 'shape';
}

/** All sequences of a context that nothing else uses. */
export async function createSequences(options: ContextSequencesOptions): Promise<ContextSequences> {
  const { batching, threads, idleRows = 'none' } = options;
  const context = await GrowingContext.open(options);
  const { addon } = context;
  const roomFor = ({ sequenceId, position, tokens }: Step) =>
    Math.min(Math.max(position + tokens.length, sequences[sequenceId]?.expectedTokens ?? 0), context.maxLength);
  const loop: DecodeLoop = createDecodeLoop({
    get context() {
      return addon.context;
    },
    batching,
    batchSize: context.batchSize,
    threads,
    makeRoom(steps) {
      const length = Math.max(...steps.map(roomFor));
      if (length <= context.length) return undefined;
      return context.grow(length, sequences, (sequence) => computeAgain(addon, context.batchSize, sequence));
    },
    hasRoom: (step) => roomFor(step) <= context.length,
    fill(steps) {
      if (idleRows === 'none' || steps[0]?.tokens.length !== 1) return [];
      const used = steps.map(({ sequenceId }) => sequenceId);
      const every = idleRows === 'shape' && steps.some(isSteadyStep);
      const [from, to] = every ? [0, sequences.length] : [Math.min(...used), Math.max(...used)];
      return sequences.slice(from, to).flatMap((sequence) => (used.includes(sequence.id) ? [] : sequence.idleRow()));
    },
  });
  const sequences = Array.from({ length: context.sequences }, (_, id) => new NativeSequence({ context, id, loop }));
  const close = async () => {
    await loop.close();
    await context.dispose();
  };
  if (idleRows !== 'shape') return { sequences, close };
  await sequences.at(-1)?.lengthen(context.length);
  return { sequences: sequences.slice(0, -1), close };
}

/** Between batches, so past the loop. */
async function computeAgain({ context }: Addon, batchSize: number, { id, tokens }: Sequence): Promise<void> {
  for (let position = 0; position < tokens.length; position += batchSize) {
    const piece = Uint32Array.from(tokens.slice(position, position + batchSize));
    context.initBatch(piece.length);
    context.addToBatch(id, position, piece, NO_OUTPUTS);
    await context.decodeBatch();
  }
}

const NO_OUTPUTS = new Uint32Array();

interface NativeSequenceOptions {
  context: GrowingContext;
  id: number;
  loop: DecodeLoop;
}

/** In llama.cpp. */
const TO_THE_END = -1;
const NO_BIASES: TokenBiases = new Map();

const UNKNOWN: Sharing = { accountId: '', priority: 'interactive' };

/** A sequence that is computed without the layers of node-llama-cpp. Nothing else may use its context. */
class NativeSequence implements Sequence {
  readonly id: number;
  readonly tokens: Token[] = [];
  readonly addon: Addon;
  readonly loop: DecodeLoop;
  caller: Sharing = UNKNOWN;
  expectedTokens = 0;
  readonly #context: GrowingContext;
  /** The cache may hold more than `tokens`: llama.cpp keeps what it has computed of a batch that fails. */
  #isTorn = false;

  constructor({ context, id, loop }: NativeSequenceOptions) {
    this.id = id;
    this.addon = context.addon;
    this.loop = loop;
    this.#context = context;
  }

  get isForwardOnly(): boolean {
    return this.#context.isForwardOnly;
  }

  async truncate(length: number): Promise<void> {
    if (length >= this.tokens.length && !this.#isTorn) return;
    await this.loop.between(() => {
      if (length === 0) this.addon.context.disposeSequence(this.id);
      else if (!this.addon.context.removeTokenCellsFromSequence(this.id, length, TO_THE_END))
        throw new Error('This model cannot forget a part of its context');
      this.tokens.length = Math.min(length, this.tokens.length);
      this.#isTorn = false;
    });
  }

  /** The row after its tokens, if there is room for it and it can be forgotten. */
  idleRow(): IdleRow[] {
    const position = this.tokens.length;
    if (this.isForwardOnly || position >= this.#context.length) return [];
    if (this.#isTorn) this.addon.context.removeTokenCellsFromSequence(this.id, position, TO_THE_END);
    return [{ sequenceId: this.id, position }];
  }

  /** Makes its context as long as it can be, with a single token at the end and room for one more. */
  async lengthen(length: number): Promise<void> {
    await this.read(Array<Token>(length - 2).fill(0 as Token), ALONE);
    await this.loop.between(() => this.addon.context.removeTokenCellsFromSequence(this.id, 0, length - 3));
  }

  async read(tokens: readonly Token[], priority: EvaluationPriority): Promise<void> {
    for (const piece of this.pieces(tokens)) {
      await new Promise<void>((computed, failed) => this.add(piece, priority, { computed, failed }));
    }
  }

  async score(tokens: readonly Token[], { priority, following, top }: ScoreOptions): Promise<TokenScore[]> {
    this.loop.ensureOpen();
    const sampler = this.addon.createSampler();
    sampler.applyConfig(this.addon.samplerConfig({ temperature: 0 }, NO_BIASES));
    const scores: TokenScore[] = [];
    try {
      await new Promise<void>((resolve, failed) => {
        const choose = async (logits: Uint32Array): Promise<void> => {
          try {
            for (const [at, token] of following.entries()) {
              // The likeliest one is chosen, so more of them need all to be sorted, which takes longer.
              const report = [[token], false, false, true, top > 1 ? top : 0] as const;
              const [, , , pairs, total] = await this.addon.context.sampleToken(
                logits[at] ?? 0,
                sampler,
                false,
                false,
                report,
                true,
              );
              scores.push(scoreOf(pairs, total));
            }
            resolve();
          } catch (error) {
            failed(error);
          }
        };
        this.add(tokens, priority, { choose, outputs: following.map((_, at) => at), failed });
      });
    } finally {
      sampler.dispose();
    }
    return scores;
  }

  generate(tokens: readonly Token[], options: GenerateOptions): TokenSteps {
    // A sampler of a model that is gone would end the process.
    this.loop.ensureOpen();
    return new NativeSteps(this, tokens, options);
  }

  isEnd(token: Token): boolean {
    return this.#context.isEnd(token);
  }

  /** What fits into a batch. */
  pieces(tokens: readonly Token[]): readonly (readonly Token[])[] {
    const { batchSize } = this.#context;
    if (tokens.length <= batchSize) return [tokens];
    return [tokens.slice(0, batchSize), ...this.pieces(tokens.slice(batchSize))];
  }

  /** Has tokens computed after those that it holds. */
  add(
    tokens: readonly Token[],
    evaluationPriority: EvaluationPriority,
    { choose, outputs, computed, failed }: Pick<Step, 'choose' | 'outputs' | 'failed'> & { computed?: () => void },
  ): Step {
    const step: Step = {
      sequenceId: this.id,
      account: this.loop.accountOf(this.caller),
      position: this.tokens.length,
      tokens,
      logits: [],
      evaluationPriority,
      choose,
      outputs,
      computed: () => {
        this.tokens.push(...tokens);
        computed?.();
      },
      failed: (error) => {
        this.#isTorn = true;
        failed(error);
      },
    };
    if (step.position + tokens.length > this.#context.maxLength) {
      queueMicrotask(() => failed(new Error('The context is full')));
    } else {
      this.loop.add(step);
    }
    return step;
  }
}

type Outcome = { value: EvaluatedToken | undefined } | { error: unknown };

/** The tokens that the model chooses for one sequence. At most one is computed that the caller has not asked for. */
class NativeSteps implements TokenSteps {
  readonly #sequence: NativeSequence;
  readonly #options: GenerateOptions;
  readonly #sampler: AddonSampler;
  /** What the sampler is configured with. */
  #applied: { grammar: LlamaGrammarEvaluationState | undefined; biases: TokenBiases } | undefined;
  /** What is computed next, if the caller sends nothing else. */
  #upcoming: readonly Token[];
  #step: Step | undefined;
  /** Outcome of a step that the caller has not asked for yet. */
  #outcome: Outcome | undefined;
  #settle: ((outcome: Outcome) => void) | undefined;
  #isFirst = true;
  #ended = false;

  constructor(sequence: NativeSequence, tokens: readonly Token[], options: GenerateOptions) {
    this.#sequence = sequence;
    this.#upcoming = tokens;
    this.#options = options;
    this.#sampler = sequence.addon.createSampler();
  }

  async next(replacement?: readonly Token[]): Promise<EvaluatedToken | undefined> {
    let outcome = this.#outcome;
    if (outcome === undefined) {
      outcome = await (this.#step === undefined ? this.#begin(replacement ?? this.#upcoming) : this.#arrival());
    } else {
      this.#outcome = undefined;
      this.#runAhead(outcome);
    }
    if ('error' in outcome) throw outcome.error;
    return outcome.value;
  }

  async end(): Promise<void> {
    this.#ended = true;
    if (this.#step !== undefined && !this.#sequence.loop.remove(this.#step)) await this.#arrival();
    this.#sampler.dispose();
  }

  async #begin(tokens: readonly Token[]): Promise<Outcome> {
    const pieces = this.#sequence.pieces(tokens);
    for (const piece of pieces.slice(0, -1)) await this.#sequence.read(piece, this.#options.priority);
    const arrival = this.#arrival();
    this.#start(pieces.at(-1) ?? []);
    return arrival;
  }

  #arrival(): Promise<Outcome> {
    return new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  #start(tokens: readonly Token[]): void {
    this.#step = this.#sequence.add(tokens, this.#options.priority, {
      choose: ([logits = 0]) => this.#choose(logits),
      failed: (error) => this.#arrive({ error }),
    });
  }

  async #choose(logits: number): Promise<void> {
    const { context } = this.#sequence.addon;
    try {
      this.#configure();
      if (this.#options.probabilities) {
        const [token, pairs] = await context.sampleToken(logits, this.#sampler, true);
        this.#arrive(this.#outcomeOf(token, pairs));
      } else {
        this.#arrive(this.#outcomeOf(await context.sampleToken(logits, this.#sampler)));
      }
    } catch (error) {
      this.#arrive({ error });
    }
  }

  /** The sampler keeps track of the tokens it chooses, so it is configured again only when the grammar or the biases change. */
  #configure(): void {
    const { sampling } = this.#options;
    const biases = this.#options.biases();
    const { grammarEvaluationState: ask } = sampling;
    const grammar = typeof ask === 'function' ? ask() : ask;
    if (this.#applied?.biases === biases && this.#applied.grammar === grammar) return;
    this.#applied = { grammar, biases };
    const { grammarEvaluationState: _, ...rest } = sampling;
    this.#sampler.applyConfig(
      this.#sequence.addon.samplerConfig({ ...rest, ...(grammar && { grammarEvaluationState: grammar }) }, biases),
    );
  }

  #outcomeOf(token: Token | -1, pairs?: TokenWithProbabilities[1]): Outcome {
    if (token === -1) return { error: new Error('No token could be chosen') };
    const isEnd = this.#sequence.isEnd(token);
    if (isEnd && !this.#options.withEnd) return { value: undefined };
    return { value: { token, ...(isEnd && { isEnd }), ...(pairs && { probabilities: probabilitiesOf(pairs) }) } };
  }

  #arrive(outcome: Outcome): void {
    this.#step = undefined;
    const settle = this.#settle;
    this.#settle = undefined;
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    if (settle === undefined) this.#outcome = outcome;
    // Reading and sending a token can wait until the next step has started, but the first is awaited.
    else if (this.#runAhead(outcome) && !isFirst) this.#sequence.loop.afterStart(() => settle(outcome));
    else settle(outcome);
  }

  #runAhead(outcome: Outcome): boolean {
    if ('error' in outcome || outcome.value === undefined || outcome.value.isEnd) return false;
    this.#upcoming = [outcome.value.token];
    if (this.#ended || !this.#options.mayRunAhead()) return false;
    this.#start(this.#upcoming);
    return true;
  }
}

function scoreOf(pairs: readonly number[], total: number): TokenScore {
  const logits = [...probabilitiesOf(pairs)].sort(([, a], [, b]) => b - a);
  const highest = logits[0]?.[1] ?? 0;
  return new Map(logits.map(([token, logit]) => [token, logit - highest - Math.log(total)]));
}

function probabilitiesOf(pairs: readonly number[]): Map<Token, number> {
  const result = new Map<Token, number>();
  for (let at = 1; at < pairs.length; at += 2) result.set(pairs[at - 1] as Token, pairs[at] as number);
  return result;
}
