import type { ChatRequest } from '@baobab/core/engine/engine.ts';
import { stringifyInSlices } from '@baobab/core/runtime/json-slices.ts';
import type { Dialect } from '../dialects/dialect.ts';
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
    response_format: wireFormat(request.format, dialect),
    ...(isChat && request.reasoningEffort !== undefined && dialect.reasoningFields(request.reasoningEffort)),
    ...(isStreamed(request, upstream) && { stream: true, ...dialect.streamFields }),
    ...dialect.accountFields?.(accountId),
  };
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

function wireFormat(format: ChatRequest['format'], { anyObject }: Dialect): unknown {
  if (format === undefined || format.type === 'text') return undefined;
  if (format.type === 'json_object') return anyObject;
  return {
    type: 'json_schema',
    json_schema: { name: format.name ?? 'response', schema: format.schema, strict: format.strict ?? true },
  };
}
