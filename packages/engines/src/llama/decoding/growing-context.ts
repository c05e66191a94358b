import { errors } from '@baobab/core/errors/errors.ts';
import type { LlamaContext, LlamaContextSequence } from 'node-llama-cpp';
import { type Addon, addonOf, type SavedSequence } from './addon.ts';
import type { Sequence } from './sequence.ts';

export interface GrowingContextOptions {
  /** Of the model, for errors. */
  slug: string;
  /** Makes a context with room for so many tokens of each sequence. */
  open(length: number): Promise<LlamaContext>;
  /** Room to begin with. */
  startLength: number;
  maxLength: number;
  /** Finds the native objects of the library. */
  find?: typeof addonOf;
}

/** llama.cpp chooses kernels by the room in use, in such steps, so more room does not change what is computed. */
const CELLS = 256;

/**
 * llama.cpp writes to all memory of a context when it makes it: four sequences of 32 000 tokens take gigabytes before the first word. So the
 * context begins small and is replaced by one of twice the size, between two batches, when a sequence has no room left. Keys and values are
 * copied bit for bit, or computed again where the library cannot copy them.
 */
export class GrowingContext {
  /** Of the present context. */
  readonly addon: Addon;
  readonly maxLength: number;
  readonly #options: GrowingContextOptions;
  readonly #find: typeof addonOf;
  #context: LlamaContext;
  /** The library's own. It keeps the number in use. */
  #first: LlamaContextSequence;
  #isLost = false;

  static async open(options: GrowingContextOptions): Promise<GrowingContext> {
    const { startLength, maxLength } = options;
    return new GrowingContext(options, await options.open(Math.min(startLength, maxLength)));
  }

  private constructor(options: GrowingContextOptions, context: LlamaContext) {
    this.#options = options;
    this.#find = options.find ?? addonOf;
    this.maxLength = options.maxLength;
    this.#context = context;
    this.#first = context.getSequence();
    this.addon = { ...this.#find(context, this.#first) };
  }

  /** Room of each sequence now. */
  get length(): number {
    return this.#isLost ? 0 : Math.min(this.#context.contextSize, this.maxLength);
  }

  get sequences(): number {
    return this.#context.totalSequences;
  }

  get batchSize(): number {
    return this.#context.batchSize;
  }

  /** Recurrent and sliding-window models cannot go back to an earlier token, and what they hold can be copied only in part. */
  get isForwardOnly(): boolean {
    return this.#first.needsCheckpoints;
  }

  isEnd(token: Parameters<LlamaContext['model']['isEogToken']>[0]): boolean {
    return this.#context.model.isEogToken(token);
  }

  /**
   * Makes room for `length` tokens. Nothing else may use the context meanwhile. If it fails, the sequences hold what they held, or the process
   * ends. `readAgain`: computes what a sequence holds in a context that is empty.
   */
  async grow(
    length: number,
    sequences: readonly Sequence[],
    readAgain: (sequence: Sequence) => Promise<void>,
  ): Promise<void> {
    const before = this.length;
    const wanted = Math.max(Math.ceil(length / CELLS) * CELLS, 2 * before);
    const used = sequences.filter(({ tokens }) => tokens.length > 0);
    const saved = new Map<Sequence, SavedSequence>();
    let refusal: unknown;
    try {
      if (!this.isForwardOnly) for (const sequence of used) saved.set(sequence, await this.addon.save(sequence.id));
    } catch (error) {
      for (const copy of saved.values()) copy.dispose();
      throw this.#noMemory(error);
    }
    try {
      await this.#context.dispose();
      await this.#replace(Math.min(wanted, this.maxLength)).catch((error: unknown) => {
        // There may still be room for what was there.
        refusal = error;
        return this.#replace(before);
      });
      await this.#fill(used, saved, readAgain);
    } catch (lost) {
      // The context no longer holds what its sequences hold. This process is of no use, and the server starts another one.
      this.#isLost = true;
      setImmediate(() => {
        throw lost;
      });
      throw this.#noMemory(lost);
    }
    if (refusal !== undefined) throw this.#noMemory(refusal);
  }

  #noMemory(cause: unknown): Error {
    return errors.modelUnavailable(this.#options.slug, 'there is no memory for a longer context', cause);
  }

  async #replace(length: number): Promise<void> {
    this.#context = await this.#options.open(length);
    this.#first = this.#context.getSequence();
    Object.assign(this.addon, this.#find(this.#context, this.#first));
  }

  async #fill(
    used: readonly Sequence[],
    saved: ReadonlyMap<Sequence, SavedSequence>,
    readAgain: (sequence: Sequence) => Promise<void>,
  ): Promise<void> {
    for (const sequence of used) {
      const copy = saved.get(sequence);
      if (copy === undefined) await readAgain(sequence);
      else await this.addon.restore(copy, sequence.id, sequence.tokens.length);
      copy?.dispose();
    }
  }

  async dispose(): Promise<void> {
    await this.#context.dispose();
  }
}
