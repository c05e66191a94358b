import type { EvaluationPriority, LlamaContext, LlamaContextSequence, Token } from 'node-llama-cpp';
import type { Addon } from './addon.ts';
import type { DecodeLoop, Step } from './decode-loop.ts';
import { DirectSteps } from './direct-steps.ts';
import type { GenerateOptions, Sequence, TokenSteps } from './sequence.ts';

export interface DirectSequenceOptions {
  context: LlamaContext;
  /** The library's own. It keeps the number in use. */
  sequence: LlamaContextSequence;
  id: number;
  addon: Addon;
  loop: DecodeLoop;
}

/** In llama.cpp. */
const TO_THE_END = -1;

/** A sequence that is computed without the layers of node-llama-cpp. Nothing else may use its context. */
export class DirectSequence implements Sequence {
  readonly id: number;
  readonly tokens: Token[] = [];
  readonly addon: Addon;
  readonly loop: DecodeLoop;
  readonly #context: LlamaContext;
  readonly #sequence: LlamaContextSequence;
  /** The cache may hold more than `tokens`: llama.cpp keeps what it has computed of a batch that fails. */
  #isTorn = false;

  constructor({ context, sequence, id, addon, loop }: DirectSequenceOptions) {
    this.id = id;
    this.addon = addon;
    this.loop = loop;
    this.#context = context;
    this.#sequence = sequence;
  }

  get isForwardOnly(): boolean {
    return this.#sequence.needsCheckpoints;
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

  async read(tokens: readonly Token[], priority: EvaluationPriority): Promise<void> {
    for (const piece of this.pieces(tokens)) {
      await new Promise<void>((computed, failed) => this.add(piece, priority, { computed, failed }));
    }
  }

  generate(tokens: readonly Token[], options: GenerateOptions): TokenSteps {
    // A sampler of a model that is gone would end the process.
    this.loop.ensureOpen();
    return new DirectSteps(this, tokens, options);
  }

  isEnd(token: Token): boolean {
    return this.#context.model.isEogToken(token);
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
    { choose, computed, failed }: { choose?: Step['choose']; computed?: () => void; failed: Step['failed'] },
  ): Step {
    const step: Step = {
      sequenceId: this.id,
      position: this.tokens.length,
      tokens,
      logits: [],
      evaluationPriority,
      choose,
      computed: () => {
        this.tokens.push(...tokens);
        computed?.();
      },
      failed: (error) => {
        this.#isTorn = true;
        failed(error);
      },
    };
    if (step.position + tokens.length > this.#context.contextSize) {
      queueMicrotask(() => failed(new Error('The context is full')));
    } else {
      this.loop.add(step);
    }
    return step;
  }
}
