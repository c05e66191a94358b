import type { ChatRequest } from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';
import type { Token } from 'node-llama-cpp';
import { createOutput, type Output } from './answer/output.ts';
import { compileGrammars, type RequestGrammars } from './compile/request-grammars.ts';
import { jsonObjectGrammar } from './grammar/json-grammar.ts';
import type { ChatTemplate, RenderedPrompt, Thinking } from './prompt/chat-template.ts';
import type { PromptLimit, PromptTokenizer } from './text/prompt-tokenizer.ts';
import type { Vocabulary } from './text/vocabulary.ts';
import { callForms, openingGrammar } from './tools/call-form.ts';
import { GENERIC_SYNTAX } from './tools/call-syntax.ts';
import type { CallPlan } from './tools/tool-calls.ts';

/** How a model reads prompts and writes answers. */
export interface ChatModel {
  vocabulary: Vocabulary;
  template: ChatTemplate;
  tokenizer: PromptTokenizer;
  contextLength: number;
  maxOutputTokens: number | null;
  newCallId: () => string;
}

/** A request in the terms of the model. */
export interface ReadRequest {
  tokens: Token[];
  maxTokens: number;
  output: Output;
  /** How its answer begins with thoughts. Undefined: it has none. */
  thinking: Thinking | undefined;
  /** GBNF of text in a format, and of the beginning of a call that may come instead. */
  format: { grammar: string; opening: string | undefined } | undefined;
  /** Only the model and the token limit can end the answer, and no grammar follows its text. */
  isPlainText: boolean;
}

/** Refuses all that can be refused before any work is done. */
export async function readChatRequest(
  model: ChatModel,
  request: ChatRequest,
  signal: AbortSignal,
): Promise<ReadRequest> {
  const { contextLength, maxOutputTokens } = model;
  const { tokens, field, output, grammars, calls, syntax, thinking } = await readPrompt(model, request, {
    tokens: contextLength,
    signal,
  });
  if (tokens.length === 0)
    throw errors.invalidParameter(field, fieldText`${field} is empty; send at least one character.`);
  const { maxTokens } = request;
  const grammar = request.format?.type === 'json_object' ? jsonObjectGrammar() : grammars.format;
  refuseKeptOpen(request, grammar !== undefined || calls !== undefined);
  return {
    tokens,
    maxTokens: outputBudget({ field, promptTokens: tokens.length, contextLength, maxOutputTokens, maxTokens }),
    output,
    thinking: grammar === undefined && !calls?.forced ? thinking : undefined,
    format: grammar === undefined ? undefined : { grammar, opening: calls && openingGrammar(calls.forms, syntax) },
    isPlainText: !request.stop?.length && !request.minTokens && calls === undefined && grammar === undefined,
  };
}

/** Counts also prompts that are too long, up to this many times the context. */
const COUNTED_CONTEXTS = 8;

export async function promptTokens(model: ChatModel, request: ChatRequest, signal: AbortSignal): Promise<Token[]> {
  return (await readPrompt(model, request, { tokens: model.contextLength * COUNTED_CONTEXTS, signal })).tokens;
}

/** The tokens of a prompt, and how its answer will be read. */
async function readPrompt(model: ChatModel, request: ChatRequest, limits: Omit<PromptLimit, 'field'>) {
  const { prompt } = request;
  const grammars = grammarsOf(request);
  const { calls: plan } = grammars;
  const field: FieldPath = ['messages' in prompt ? 'messages' : 'prompt'];
  const limit = { ...limits, field };
  const rendered = renderPrompt(model, request, plan, limit);
  const syntax = rendered?.syntax ?? GENERIC_SYNTAX;
  const forms = plan && callForms(plan.tools, syntax);
  const calls = plan && forms && { ...plan, forms };
  if (request.answerStart === 'continued' && calls && (calls.forced || syntax.mark === undefined)) {
    throw errors.unsupportedParameter(
      ['tools'],
      fieldText`${['tools']} cannot be called where the answer continues a message. Leave ${['answerStart']} or ${['tools']} out.`,
    );
  }
  const output = createOutput({
    stop: request.stop,
    calls,
    syntax,
    callsBefore: rendered?.callsBefore ?? 0,
    dropLeadingSpace:
      model.vocabulary.addsLeadingSpace && rendered !== undefined && request.answerStart !== 'continued',
    // With a JSON format, JSON is the answer and not a call.
    acceptWholeCalls: request.format === undefined || request.format.type === 'text',
    newCallId: model.newCallId,
  });
  const { tokenizer } = model;
  const tokens = await ('text' in prompt
    ? tokenizer.text(prompt.text, limit)
    : 'tokens' in prompt
      ? tokenizer.ids(prompt.tokens)
      : tokenizer.parts(rendered?.parts ?? [], limit));
  const lead = 'messages' in prompt ? tokenizer.continuation(output.lead) : [];
  return {
    tokens: lead.length === 0 ? tokens : [...tokens, ...lead],
    field,
    output,
    grammars,
    calls,
    syntax,
    thinking: rendered?.thinking,
  };
}

/** The host compiles them before the request reaches this process. Other callers leave it to us. */
const grammarsOf = (request: ChatRequest) =>
  (request.prepared as RequestGrammars | undefined) ?? compileGrammars(request);

function renderPrompt(
  { template }: ChatModel,
  { prompt, tools, reasoningEffort, format, answerStart }: ChatRequest,
  plan: CallPlan | undefined,
  limit: PromptLimit,
): RenderedPrompt | undefined {
  if (!('messages' in prompt)) return undefined;
  // Every message has at least one token, and rendering many messages takes long.
  if (prompt.messages.length > limit.tokens) throw errors.contextFarTooLong(limit.field, limit.tokens);
  return template.render({
    messages: prompt.messages,
    tools: plan && tools,
    fits: plan && ((syntax) => callForms(plan.tools, syntax) !== undefined),
    forcesCall: plan?.forced,
    answerStart,
    // A grammar begins with the first token and leaves no room for thoughts.
    thinks: reasoningEffort !== 'none' && (format === undefined || format.type === 'text') ? undefined : false,
  });
}

/** An answer that has to end cannot be kept from ending. */
function refuseKeptOpen({ minTokens, ignoresEnd, stop = [] }: ChatRequest, mustEnd: boolean): void {
  const field = ignoresEnd ? ['ignoresEnd'] : ['minTokens'];
  const isKeptOpen = ignoresEnd || minTokens !== undefined;
  if (!isKeptOpen || (!mustEnd && (stop.length === 0 || minTokens === undefined))) return;
  const beside = mustEnd ? 'tools or a format' : 'stop sequences';
  throw errors.unsupportedParameter(field, fieldText`${field} cannot be combined with ${beside} on this model.`);
}

const MAX_TOKENS: FieldPath = ['maxTokens'];

export interface TokenBudget {
  /** The field of the prompt, for the error message. */
  field: FieldPath;
  promptTokens: number;
  contextLength: number;
  maxOutputTokens: number | null;
  maxTokens: number | undefined;
}

/** How many tokens may be generated. Throws if they cannot fit into the context. */
export function outputBudget({ field, promptTokens, contextLength, maxOutputTokens, maxTokens }: TokenBudget): number {
  const room = contextLength - promptTokens;
  if (room < 1) throw errors.contextTooLong(field, promptTokens, contextLength);
  const most = Math.min(room, maxOutputTokens ?? room);
  if (maxTokens === undefined) return most;
  if (maxTokens > room) throw errors.answerTooLong({ promptTokens, maxTokens, limit: contextLength });
  if (maxTokens > most) {
    throw new ApiError(
      'context_length_exceeded',
      fieldText`${MAX_TOKENS} is ${maxTokens}, but this model generates at most ${most} tokens in one answer.`,
      { field: MAX_TOKENS },
    );
  }
  return maxTokens;
}
