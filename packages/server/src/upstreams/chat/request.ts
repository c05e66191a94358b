import type { ChatRequest } from '@baobab/core/engine/engine.ts';
import { stringifyInSlices } from '@baobab/core/runtime/json-slices.ts';
import { type Dialect, EXTRAS } from '../dialects/dialect.ts';
import { cannotKeep } from '../failure/failure.ts';
import type { Upstream } from '../routing/upstream.ts';
import { wireMessage, wireTool } from './wire.ts';

/**
 * Whether the upstream is asked for a stream. A client that waits for the whole answer needs none, unless the upstream counts tokens with
 * every chunk, or they have to be known.
 */
export const isStreamed = ({ wholeAnswer, counted }: ChatRequest, { dialect }: Upstream): boolean =>
  !wholeAnswer || counted === true || dialect.countsEveryChunk;

/** The body of a chat or completion request. A long one is written in slices. */
export function chatBody(request: ChatRequest, upstream: Upstream, accountId: string): string | Promise<string> {
  const { prompt } = request;
  const { dialect } = upstream;
  const isChat = 'messages' in prompt;
  const body: Record<string, unknown> = {
    model: upstream.model,
    ...(isChat
      ? { messages: prompt.messages.map((message) => wireMessage(message, dialect.takesThoughts)) }
      : { prompt: 'text' in prompt ? prompt.text : prompt.tokens }),
    temperature: request.temperature,
    top_p: request.topP,
    seed: request.seed,
    stop: request.stop,
    frequency_penalty: request.frequencyPenalty,
    presence_penalty: request.presencePenalty,
    logit_bias: request.logitBias === undefined ? undefined : Object.fromEntries(request.logitBias),
    ...formatFields(request.format, dialect),
    ...(isChat && request.reasoningEffort !== undefined && dialect.reasoningFields(request.reasoningEffort)),
    ...(isStreamed(request, upstream) && { stream: true, ...dialect.streamFields }),
    ...dialect.accountFields?.(accountId),
  };
  for (const name of EXTRAS) addExtra(body, name, request, dialect);
  body[isChat && upstream.learned.wantsMaxCompletionTokens ? 'max_completion_tokens' : 'max_tokens'] =
    request.maxTokens;
  if (request.logprobs !== undefined) {
    Object.assign(
      body,
      isChat ? { logprobs: true, top_logprobs: request.logprobs.top } : { logprobs: request.logprobs.top },
    );
  }
  if (isChat) Object.assign(body, toolFields(request, dialect));
  return stringifyInSlices(body);
}

function toolFields({ tools = [], toolChoice, parallelToolCalls }: ChatRequest, dialect: Dialect): object {
  const offered = dialect.offeredTools(tools, toolChoice);
  if (offered.length === 0) return {};
  return {
    tools: offered.map(wireTool),
    tool_choice: dialect.toolChoice(toolChoice),
    parallel_tool_calls: parallelToolCalls,
  };
}

/** Values with which a part of a request changes nothing. */
const NEUTRAL: Partial<Record<(typeof EXTRAS)[number], unknown>> = { minP: 0, minTokens: 0, repetitionPenalty: 1 };

function addExtra(body: object, name: (typeof EXTRAS)[number], request: ChatRequest, { extras }: Dialect): void {
  const value = request[name];
  if (value === undefined) return;
  const fieldsOf = extras[name] as ((given: unknown) => object | undefined) | undefined;
  const fields = fieldsOf?.(value);
  if (fields !== undefined) Object.assign(body, fields);
  else if (value !== NEUTRAL[name]) throw cannotKeep([name]);
}

function formatFields(format: ChatRequest['format'], dialect: Dialect): object {
  if (format === undefined) return {};
  switch (format.type) {
    case 'text':
      return {};
    case 'json_object':
      return { response_format: dialect.anyObject };
    case 'json_schema': {
      const { name = 'response', schema, strict = true } = format;
      return { response_format: { type: 'json_schema', json_schema: { name, schema, strict } } };
    }
    default: {
      const fields = dialect.constraintFields(format);
      if (fields === undefined) throw cannotKeep(['format']);
      return fields;
    }
  }
}
