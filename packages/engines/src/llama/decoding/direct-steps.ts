import type { LlamaGrammarEvaluationState, Token } from 'node-llama-cpp';
import type { AddonSampler, TokenWithProbabilities } from './addon.ts';
import type { Step } from './decode-loop.ts';
import type { DirectSequence } from './direct-sequence.ts';
import type { EvaluatedToken, GenerateOptions, TokenSteps } from './sequence.ts';

type Outcome = { value: EvaluatedToken | undefined } | { error: unknown };

/** The tokens that the model chooses for one sequence. At most one is computed that the caller has not asked for. */
export class DirectSteps implements TokenSteps {
  readonly #sequence: DirectSequence;
  readonly #options: GenerateOptions;
  readonly #sampler: AddonSampler;
  /** The grammar that the sampler is configured with. */
  #applied: { grammar: LlamaGrammarEvaluationState | undefined } | undefined;
  /** What is computed next, if the caller sends nothing else. */
  #upcoming: readonly Token[];
  #step: Step | undefined;
  /** Outcome of a step that the caller has not asked for yet. */
  #outcome: Outcome | undefined;
  #settle: ((outcome: Outcome) => void) | undefined;
  #isFirst = true;
  #ended = false;

  constructor(sequence: DirectSequence, tokens: readonly Token[], options: GenerateOptions) {
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
      choose: (place) => this.#choose(place),
      failed: (error) => this.#arrive({ error }),
    });
  }

  async #choose(place: number): Promise<void> {
    const { context } = this.#sequence.addon;
    try {
      this.#configure();
      if (this.#options.probabilities) {
        const [token, pairs] = await context.sampleToken(place, this.#sampler, true);
        this.#arrive(this.#outcomeOf(token, pairs));
      } else {
        this.#arrive(this.#outcomeOf(await context.sampleToken(place, this.#sampler)));
      }
    } catch (error) {
      this.#arrive({ error });
    }
  }

  /** The sampler keeps track of the tokens it chooses, so it is configured again only when the grammar changes. */
  #configure(): void {
    const { sampling } = this.#options;
    const { grammarEvaluationState: ask } = sampling;
    const grammar = typeof ask === 'function' ? ask() : ask;
    if (this.#applied !== undefined && this.#applied.grammar === grammar) return;
    this.#applied = { grammar };
    const { grammarEvaluationState: _, ...rest } = sampling;
    this.#sampler.applyConfig(
      this.#sequence.addon.samplerConfig({ ...rest, ...(grammar && { grammarEvaluationState: grammar }) }),
    );
  }

  #outcomeOf(token: Token | -1, pairs?: TokenWithProbabilities[1]): Outcome {
    if (token === -1) return { error: new Error('No token could be chosen') };
    if (this.#sequence.isEnd(token)) return { value: undefined };
    return { value: { token, ...(pairs && { probabilities: probabilitiesOf(pairs) }) } };
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
    if ('error' in outcome || outcome.value === undefined) return false;
    this.#upcoming = [outcome.value.token];
    if (this.#ended || !this.#options.mayRunAhead()) return false;
    this.#start(this.#upcoming);
    return true;
  }
}

function probabilitiesOf(pairs: readonly number[]): Map<Token, number> {
  const result = new Map<Token, number>();
  for (let at = 1; at < pairs.length; at += 2) result.set(pairs[at - 1] as Token, pairs[at] as number);
  return result;
}
