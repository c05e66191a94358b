import type { CallContext, ChatRequest, GenerationSink, TokenUsage } from '@baobab/core/engine/engine.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';
import type { LlamaModel, Token } from 'node-llama-cpp';
import { compileGrammars, type RequestGrammars } from '../compile/request-grammars.ts';
import { jsonObjectGrammar } from '../grammar/json-grammar.ts';
import type { ChatTemplate, PromptPart, RenderedPrompt } from '../prompt/chat-template.ts';
import type { PromptLimit, PromptTokenizer } from '../prompt/prompt.ts';
import type { Vocabulary } from '../prompt/vocabulary.ts';
import { callForms, openingGrammar } from '../tools/call-form.ts';
import { GENERIC_SYNTAX } from '../tools/call-syntax.ts';
import type { CallPlan } from '../tools/tool-calls.ts';
import type { Batching } from './batching.ts';
import { evaluate } from './evaluation.ts';
import { createGrammarSwitch, type GrammarStates, type GrammarSwitch } from './grammar-states.ts';
import { createGrammarTime } from './grammar-time.ts';
import { outputBudget } from './limits.ts';
import { tokenLogprob } from './logprobs.ts';
import { createOutput, type Output, type OutputStep } from './output.ts';
import { createReasoningSplit, type ReasoningSplit } from './reasoning.ts';
import { checkBias, samplingOptions, temperatureOf } from './sampling.ts';
import type { AcquiredSlot, SlotPool } from './slots.ts';

export interface GenerationDependencies {
  model: LlamaModel;
  vocabulary: Vocabulary;
  template: ChatTemplate;
  tokenizer: PromptTokenizer;
  grammars: GrammarStates;
  slots: SlotPool;
  batching: Batching;
  /** Tokens of a reproducible prompt that are evaluated at once. */
  chunkTokens: number;
  contextLength: number;
  maxOutputTokens: number | null;
  /**
   * Sharing a batch changes results, so greedy answers run alone where that costs little: on CPUs up to 4 sequences were no faster
   * in one batch than one after the other.
   */
  greedyRunsAlone: boolean;
  randomSeed: () => number;
  newCallId: () => string;
  afterGeneration: () => void;
}

interface Production {
  dependencies: GenerationDependencies;
  request: ChatRequest;
  context: CallContext;
  sink: GenerationSink;
}

export async function generate(production: Production): Promise<void> {
  try {
    await produce(production);
  } finally {
    production.dependencies.afterGeneration();
  }
}

async function produce(production: Production): Promise<void> {
  const { dependencies, context, sink } = production;
  const { accountId, signal } = context;
  if (signal.aborted) throw cancellation(signal);
  const plan = await prepare(production);
  const { tokens, reproducible, output, reasoning } = plan;
  const acquired = await dependencies.slots.acquire({ accountId, tokens, reproducible, signal });
  const { cachedTokens } = acquired;
  const usage: TokenUsage = { promptTokens: tokens.length, completionTokens: 0, cachedTokens };
  let end: DecodingEnd;
  let keep = false;
  try {
    sink.used({ ...usage });
    await sink.deliver({ type: 'start', promptTokens: tokens.length, cachedTokens });
    end = await decode(production, plan, acquired, usage);
    keep = true;
  } finally {
    sink.used({ ...usage });
    await acquired.release({ keep: keep || signal.aborted });
  }
  for (const event of [...reasoning.take(output.finish()), ...reasoning.finish()]) await sink.deliver(event);
  const reason = output.callsComplete ? 'tool_calls' : end.cut ? 'length' : 'stop';
  const { stopSequence } = end;
  await sink.deliver({ type: 'end', reason, usage, ...(stopSequence !== undefined && { stopSequence }) });
}

interface GenerationPlan {
  tokens: Token[];
  maxTokens: number;
  output: Output;
  reasoning: ReasoningSplit;
  grammar: GrammarSwitch;
  /** The same request always gives the same text, with or without a cached prefix. */
  reproducible: boolean;
  /** Only the model and the token limit can end the answer, and no grammar follows its text. */
  isPlainText: boolean;
}

interface PromptSource {
  dependencies: GenerationDependencies;
  request: ChatRequest;
  signal: AbortSignal;
}

/** The tokens of a prompt, and how its answer will be read. */
async function readPrompt({ dependencies, request, signal }: PromptSource, maxTokens: number) {
  const { vocabulary } = dependencies;
  const { calls: plan, format } = grammarsOf(request);
  const field: FieldPath = ['messages' in request.prompt ? 'messages' : 'prompt'];
  const limit = { field, tokens: maxTokens, signal };
  const rendered = renderPrompt(dependencies, { ...request, tools: plan && request.tools }, plan, limit);
  const syntax = rendered?.syntax ?? GENERIC_SYNTAX;
  const forms = plan && callForms(plan.tools, syntax);
  const calls = plan && forms && { ...plan, forms };
  const output = createOutput({
    stop: request.stop,
    calls,
    syntax,
    callsBefore: rendered?.callsBefore ?? 0,
    dropLeadingSpace: vocabulary.addsLeadingSpace && rendered !== undefined,
    // With a JSON format, JSON is the answer and not a call.
    acceptWholeCalls: request.format === undefined || request.format.type === 'text',
    newCallId: dependencies.newCallId,
  });
  const tokens = await promptTokens(dependencies, request.prompt, { rendered, lead: output.lead }, limit);
  return { tokens, field, output, format, calls, syntax, rendered };
}

/** Counts also prompts that are too long, up to this many times the context. */
const COUNTED_CONTEXTS = 8;

export async function countPromptTokens(source: PromptSource): Promise<number> {
  return (await readPrompt(source, source.dependencies.contextLength * COUNTED_CONTEXTS)).tokens.length;
}

/** Checks everything that can be refused before any work is done. */
async function prepare({ dependencies, request, context: { signal } }: Production): Promise<GenerationPlan> {
  const { vocabulary, grammars, contextLength } = dependencies;
  checkBias(request.logitBias, vocabulary.size);
  const prompt = await readPrompt({ dependencies, request, signal }, contextLength - 1);
  const { tokens, field, output, format, calls, syntax, rendered } = prompt;
  if (tokens.length === 0)
    throw errors.invalidParameter(field, fieldText`${field} is empty; send at least one character.`);
  const maxTokens = outputBudget({
    field,
    promptTokens: tokens.length,
    contextLength,
    maxOutputTokens: dependencies.maxOutputTokens,
    maxTokens: request.maxTokens,
  });
  const opening = calls && openingGrammar(calls.forms, syntax);
  const textGrammar = request.format?.type === 'json_object' ? jsonObjectGrammar() : format;
  const grammar = createGrammarSwitch(
    grammars,
    textGrammar === undefined ? undefined : await grammars.createWith(textGrammar, opening),
  );
  await grammar.follow(output.callGrammar);
  return {
    tokens,
    maxTokens,
    output,
    reasoning: createReasoningSplit(textGrammar === undefined && !calls?.forced ? rendered?.thinking : undefined),
    grammar,
    reproducible: request.seed !== undefined || temperatureOf(request) === 0,
    isPlainText: !request.stop?.length && calls === undefined && textGrammar === undefined,
  };
}

/** The host compiles them before the request reaches this process. Other callers leave it to us. */
const grammarsOf = (request: ChatRequest) =>
  (request.prepared as RequestGrammars | undefined) ?? compileGrammars(request);

interface DecodingEnd {
  /** The token limit ended it. */
  cut: boolean;
  stopSequence?: string | undefined;
}

/** Generates until the model, a stop sequence or the token limit ends it. Keeps `usage` current. */
async function decode(
  { dependencies, request, context: { signal }, sink }: Production,
  { tokens, maxTokens, output, reasoning, grammar, reproducible, isPlainText }: GenerationPlan,
  { slot, cachedTokens }: AcquiredSlot,
  usage: TokenUsage,
): Promise<DecodingEnd> {
  const { model, vocabulary, batching, chunkTokens, tokenizer, randomSeed } = dependencies;
  const generated: number[] = [];
  const temperature = temperatureOf(request);
  const grammarTime = createGrammarTime(request, () => performance.now());
  const steps = evaluate({
    slot,
    tokens,
    cachedTokens,
    chunkTokens,
    batching,
    reproducible,
    alone: request.seed !== undefined || (reproducible && dependencies.greedyRunsAlone),
    sampling: {
      ...samplingOptions({ request, model, generated, maxTokens, randomSeed }),
      // Called when the model has been evaluated and a token is about to be chosen.
      grammarEvaluationState: () => {
        if (grammar.state !== undefined) grammarTime.begin();
        return grammar.state;
      },
    },
    probabilities: request.logprobs !== undefined,
    mayRunAhead: () => isPlainText && usage.completionTokens + 1 < maxTokens,
    signal,
  });
  try {
    let replacement: Token[] | undefined;
    while (true) {
      const step = await steps.next(replacement);
      grammarTime.end();
      if (step.done) return { cut: false };
      const { token, probabilities } = step.value;
      generated.push(token);
      usage.completionTokens++;
      const logprob =
        request.logprobs && probabilities
          ? tokenLogprob({ vocabulary, token, probabilities, temperature, top: request.logprobs.top })
          : undefined;
      const control = vocabulary.control(token);
      // A grammar matches a control token by its text, so inside a grammar it is text.
      const bytes = control !== undefined && grammar.state ? Buffer.from(control) : vocabulary.bytes(token);
      const read = output.push({ bytes, control, logprob });
      sink.used({ ...usage });
      for (const event of reasoning.take(read.events)) {
        const taken = sink.deliver(event);
        if (taken !== undefined) await taken;
      }
      if (read.done) return { cut: false, stopSequence: read.stopSequence };
      await grammar.follow(output.callGrammar);
      replacement = replacementTokens(tokenizer, token, read);
      // Inserted text counts as generated and must fit.
      const inserted = (replacement?.length ?? 1) - 1;
      if (usage.completionTokens + inserted >= maxTokens) return { cut: true };
      usage.completionTokens += inserted;
    }
  } finally {
    await steps.return();
  }
}

function renderPrompt(
  { template }: GenerationDependencies,
  { prompt, tools, reasoningEffort, format }: ChatRequest,
  plan: CallPlan | undefined,
  limit: PromptLimit,
): RenderedPrompt | undefined {
  if (!('messages' in prompt)) return undefined;
  // Every message has at least one token, and rendering many messages takes long.
  if (prompt.messages.length > limit.tokens) throw errors.contextFarTooLong(limit.field, limit.tokens);
  return template.render({
    messages: prompt.messages,
    tools,
    fits: plan && ((syntax) => callForms(plan.tools, syntax) !== undefined),
    forcesCall: plan?.forced,
    // A grammar begins with the first token and leaves no room for thoughts.
    thinks: reasoningEffort !== 'none' && (format === undefined || format.type === 'text') ? undefined : false,
  });
}

async function promptTokens(
  { tokenizer }: GenerationDependencies,
  prompt: ChatRequest['prompt'],
  { rendered, lead }: { rendered: RenderedPrompt | undefined; lead: readonly PromptPart[] },
  limit: PromptLimit,
): Promise<Token[]> {
  if ('text' in prompt) return tokenizer.text(prompt.text, limit);
  if ('tokens' in prompt) return tokenizer.ids(prompt.tokens);
  return [...(await tokenizer.parts(rendered?.parts ?? [], limit)), ...tokenizer.continuation(lead)];
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
