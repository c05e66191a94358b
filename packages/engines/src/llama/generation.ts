import type { CallContext, ChatRequest, GenerationSink, TokenUsage } from '@baobab/core/engine/engine.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { fieldText } from '@baobab/core/errors/fields.ts';
import type { Token } from 'node-llama-cpp';
import { promptLogprobs, tokenLogprob } from './answer/logprobs.ts';
import type { OutputStep } from './answer/output.ts';
import { createReasoningSplit, type ReasoningSplit } from './answer/reasoning.ts';
import { type ChatModel, type ReadRequest, readChatRequest } from './chat-request.ts';
import type { Batching } from './decoding/batching.ts';
import { evaluate, scorePrompt } from './decoding/evaluation.ts';
import { createGrammarSwitch, type GrammarStates, type GrammarSwitch } from './decoding/grammar-states.ts';
import { biasesOf, checkBias, samplingOptions, temperatureOf } from './decoding/sampling.ts';
import type { AcquiredSlot, SlotPool } from './decoding/slots.ts';
import type { Steadiness } from './decoding/steadiness.ts';
import { formatField } from './grammar/format-grammar.ts';
import type { PromptTokenizer } from './text/prompt-tokenizer.ts';

export interface GenerationDependencies extends ChatModel {
  /** Tokens that end an answer. */
  endTokens: readonly Token[];
  grammars: GrammarStates;
  slots: SlotPool;
  batching: Batching;
  /** Tokens of a reproducible prompt that are evaluated at once. */
  chunkTokens: number;
  steadiness: Steadiness;
  randomSeed: () => number;
  afterGeneration: () => void;
}

/** In tokens. Room for it is made together with that for the prompt. */
const SHORT_ANSWER = 256;

export interface GenerationCall {
  request: ChatRequest;
  context: CallContext;
  sink: GenerationSink;
}

/** One answer, from its request to its last event. */
export async function generate(dependencies: GenerationDependencies, call: GenerationCall): Promise<void> {
  try {
    await answer(dependencies, call);
  } finally {
    dependencies.afterGeneration();
  }
}

async function answer(dependencies: GenerationDependencies, call: GenerationCall): Promise<void> {
  const { request, context, sink } = call;
  const { accountId, signal } = context;
  if (signal.aborted) throw cancellation(signal);
  checkBias(request.logitBias, dependencies.vocabulary.size);
  const read = await readChatRequest(dependencies, request, signal);
  const { tokens, output } = read;
  const grammar = await grammarOf(read, dependencies.grammars);
  const reasoning = createReasoningSplit(read.thinking);
  const reproducible = isReproducible(request, dependencies);
  const isScored = request.echoes === true && request.logprobs !== undefined;
  const acquired = await dependencies.slots.acquire({ accountId, tokens, reproducible, fresh: isScored, signal });
  const { cachedTokens } = acquired;
  const { sequence } = acquired.slot;
  sequence.caller = context;
  sequence.expectedTokens = tokens.length + Math.min(read.maxTokens, SHORT_ANSWER);
  const usage: TokenUsage = { promptTokens: tokens.length, completionTokens: 0, cachedTokens };
  const unsent: number[] = [];
  const deliver: GenerationSink['deliver'] = request.withTokenIds
    ? (event) => sink.deliver({ ...event, tokenIds: unsent.splice(0) })
    : (event) => sink.deliver(event);
  let end: DecodingEnd;
  let keep = false;
  try {
    sink.used({ ...usage });
    const ids = request.withTokenIds ? { tokenIds: tokens } : {};
    await sink.deliver({ type: 'start', promptTokens: tokens.length, cachedTokens, ...ids });
    const input = { ...read, grammar, reasoning, acquired, usage, unsent, deliver };
    if (request.echoes) input.acquired = { ...acquired, cachedTokens: await echo(dependencies, call, input) };
    end = read.maxTokens === 0 ? { cut: true } : await decode(dependencies, call, input);
    keep = true;
  } finally {
    sink.used({ ...usage });
    await acquired.release({ keep: keep || signal.aborted });
  }
  for (const event of [...reasoning.take(output.finish()), ...reasoning.finish()]) await deliver(event);
  const reason = output.callsComplete ? 'tool_calls' : end.cut ? 'length' : 'stop';
  const { stopSequence } = end;
  await deliver({ type: 'end', reason, usage, ...(stopSequence !== undefined && { stopSequence }) });
}

async function grammarOf({ format, output }: ReadRequest, grammars: GrammarStates): Promise<GrammarSwitch> {
  const grammar = createGrammarSwitch(grammars, format && (await grammars.createWith(format.grammar, format.opening)));
  await grammar.follow(output.callGrammar);
  return grammar;
}

/** The same request always gives the same text, with or without a cached prefix. */
const isReproducible = (request: ChatRequest, { steadiness }: Pick<GenerationDependencies, 'steadiness'>) =>
  steadiness !== 'none' && (request.seed !== undefined || temperatureOf(request) === 0);

interface DecodingInput extends ReadRequest {
  grammar: GrammarSwitch;
  reasoning: ReasoningSplit;
  acquired: AcquiredSlot;
  /** Is kept current. */
  usage: TokenUsage;
  /** Generated tokens that no event has told yet. */
  unsent: number[];
  deliver: GenerationSink['deliver'];
}

const NO_BYTES = new Uint8Array();

/** Delivers the prompt as the beginning of the answer. Returns how many of its tokens are computed then. */
async function echo(
  { vocabulary, batching, chunkTokens, steadiness }: GenerationDependencies,
  { request, context: { signal }, sink }: GenerationCall,
  { tokens, acquired }: DecodingInput,
): Promise<number> {
  const { prompt, logprobs } = request;
  const text = 'text' in prompt ? prompt.text : vocabulary.text(tokens);
  if (logprobs === undefined) {
    await sink.deliver({ type: 'text-delta', text });
    return acquired.cachedTokens;
  }
  const { top } = logprobs;
  const reproducible = isReproducible(request, { steadiness });
  const scores = await scorePrompt({ ...acquired, tokens, chunkTokens, batching, reproducible, signal }, top);
  await sink.deliver({ type: 'text-delta', text, logprobs: promptLogprobs(vocabulary, tokens, scores, top) });
  return Math.max(0, tokens.length - 1);
}

interface DecodingEnd {
  /** The token limit ended it. */
  cut: boolean;
  stopSequence?: string | undefined;
}

/** Generates until the model, a stop sequence or the token limit ends it. */
async function decode(
  dependencies: GenerationDependencies,
  { request, context: { signal }, sink }: GenerationCall,
  { tokens, maxTokens, output, isPlainText, grammar, reasoning, acquired, usage, unsent, deliver }: DecodingInput,
): Promise<DecodingEnd> {
  const { vocabulary, batching, chunkTokens, steadiness, tokenizer, randomSeed } = dependencies;
  const generated: number[] = [];
  const temperature = temperatureOf(request);
  const grammarTime = createGrammarTime(request, () => performance.now());
  const biases = biasesOf(request, dependencies.endTokens);
  const steps = await evaluate({
    ...acquired,
    tokens,
    chunkTokens,
    batching,
    reproducible: isReproducible(request, dependencies),
    sharesSteps: steadiness === 'together',
    sampling: {
      ...samplingOptions({ request, generated, maxTokens, randomSeed }),
      // Called when the model has been evaluated and a token is about to be chosen.
      grammarEvaluationState: () => {
        if (grammar.state !== undefined) grammarTime.begin();
        return grammar.state;
      },
    },
    biases: () => biases(usage.completionTokens),
    probabilities: request.logprobs !== undefined,
    // The likelihood of a text is counted from its tokens and one more, which may be the end.
    withEnd: request.echoes === true && request.logprobs !== undefined,
    mayRunAhead: () => isPlainText && usage.completionTokens + 1 < maxTokens,
    signal,
  });
  try {
    let replacement: Token[] | undefined;
    while (true) {
      const step = await steps.next(replacement);
      grammarTime.end();
      if (step === undefined) return { cut: false };
      const { token, probabilities, isEnd } = step;
      if (!isEnd) {
        generated.push(token);
        unsent.push(token);
        usage.completionTokens++;
        sink.used({ ...usage });
      }
      const logprob =
        request.logprobs && probabilities
          ? tokenLogprob({ vocabulary, token, probabilities, temperature, top: request.logprobs.top })
          : undefined;
      const control = vocabulary.control(token);
      // A grammar matches a control token by its text, so inside a grammar it is text.
      const bytes = control !== undefined && grammar.state ? Buffer.from(control) : vocabulary.bytes(token);
      const written = isEnd ? output.push({ bytes: NO_BYTES, logprob }) : output.push({ bytes, control, logprob });
      for (const event of reasoning.take(written.events)) {
        const taken = deliver(event);
        if (taken !== undefined) await taken;
      }
      if (isEnd) return { cut: false };
      if (written.done) return { cut: false, stopSequence: written.stopSequence };
      await grammar.follow(output.callGrammar);
      replacement = replacementTokens(tokenizer, token, written);
      if (replacement !== undefined) unsent.push(...replacement.slice(1));
      // Inserted text counts as generated and must fit.
      const inserted = (replacement?.length ?? 1) - 1;
      if (usage.completionTokens + inserted >= maxTokens) return { cut: true };
      usage.completionTokens += inserted;
    }
  } finally {
    await steps.end();
  }
}

/** The tokens that replace the generated one when fixed text follows it. */
function replacementTokens(
  tokenizer: PromptTokenizer,
  token: Token,
  { insert, kept }: OutputStep,
): Token[] | undefined {
  if (insert === undefined) return undefined;
  if (kept === undefined) return [token, ...tokenizer.continuation(insert)];
  const [first = { text: '', literal: true }, ...rest] = insert;
  return tokenizer.continuation([{ ...first, text: kept + first.text }, ...rest]);
}

/** One token. Other requests wait while it is chosen. */
const MAX_TOKEN_MS = 3_000;
/** All tokens of an answer: this, and more with each token. A grammar at the limit of the compiler takes about 60 ms for one. */
const BASE_MS = 5_000;
const MS_A_TOKEN = 150;

/**
 * Limits the time that an answer may spend on following its grammar. The compiler refuses grammars that are known to be slow. This
 * ends an answer whose grammar is slow in a way that the compiler does not foresee.
 */
interface GrammarTime {
  /** A token is being chosen. */
  begin(): void;
  /** It was chosen. Throws a 422 if that took too long. */
  end(): void;
}

export function createGrammarTime(request: Pick<ChatRequest, 'format'>, now: () => number): GrammarTime {
  let startedAt: number | undefined;
  let spentMs = 0;
  let tokens = 0;
  return {
    begin() {
      startedAt = now();
    },
    end() {
      if (startedAt === undefined) return;
      const tookMs = now() - startedAt;
      startedAt = undefined;
      spentMs += tookMs;
      tokens += 1;
      if (tookMs > MAX_TOKEN_MS || spentMs > BASE_MS + MS_A_TOKEN * tokens) throw tooSlow(request);
    },
  };
}

function tooSlow({ format }: Pick<ChatRequest, 'format'>) {
  const location = format === undefined ? ['tools'] : formatField(format);
  return errors.unsupportedParameter(
    location,
    fieldText`What ${location} asks for takes too long to be enforced. Use fewer alternatives and shorter patterns.`,
  );
}
