import { createHash } from 'node:crypto';
import type { ChatMessage, ChatRequest, ImageInput, ToolChoice, ToolDefinition } from '../../engine.ts';
import type { Upstream, UpstreamKind } from '../routing/upstream.ts';

/**
 * Whether the upstream is asked for a stream. A client that waits for the whole answer needs none, but vLLM and llama-server count
 * tokens with every chunk: streamed, a request that the client cancels is billed exactly, and an engine that hangs is noticed early.
 */
export const isStreamed = ({ wholeAnswer }: ChatRequest, { settings }: Upstream): boolean =>
  !wholeAnswer || settings.kind === 'vllm' || settings.kind === 'llama-server';

/** The body of a chat or completion request. */
export function chatBody(request: ChatRequest, upstream: Upstream, accountId: string): string {
  const { prompt } = request;
  const isChat = 'messages' in prompt;
  const body: Record<string, unknown> = {
    model: upstream.model,
    ...(isChat
      ? { messages: prompt.messages.map((message) => wireMessage(message, upstream.settings.kind)) }
      : { prompt: 'text' in prompt ? prompt.text : prompt.tokens }),
    temperature: request.temperature,
    top_p: request.topP,
    seed: request.seed,
    stop: request.stop,
    frequency_penalty: request.frequencyPenalty,
    presence_penalty: request.presencePenalty,
    logit_bias: request.logitBias === undefined ? undefined : Object.fromEntries(request.logitBias),
    response_format: wireFormat(request.format, upstream.settings.kind),
    ...(isChat && thinkingFields(request, upstream.settings.kind)),
    ...(isStreamed(request, upstream) && { stream: true, ...usageOptions(upstream) }),
    cache_salt: upstream.settings.kind === 'vllm' ? cacheSalt(accountId) : undefined,
  };
  body[isChat && upstream.learned.wantsMaxCompletionTokens ? 'max_completion_tokens' : 'max_tokens'] =
    request.maxTokens;
  if (request.logprobs !== undefined) {
    Object.assign(
      body,
      isChat ? { logprobs: true, top_logprobs: request.logprobs.top } : { logprobs: request.logprobs.top },
    );
  }
  if (isChat) Object.assign(body, toolFields(request, upstream.settings.kind));
  return JSON.stringify(body);
}

/** vLLM shares cached prefixes only between requests with the same salt: how fast an answer begins shows nothing of other accounts. */
const cacheSalt = (accountId: string): string => createHash('sha256').update(accountId).digest('base64url');

/** vLLM and llama-server can send token counts with every chunk, so that an aborted stream is billed exactly. */
function usageOptions({ settings }: Upstream): Record<string, unknown> {
  if (settings.kind === 'vllm') return { stream_options: { include_usage: true, continuous_usage_stats: true } };
  const options = { stream_options: { include_usage: true } };
  return settings.kind === 'llama-server' ? { ...options, timings_per_token: true } : options;
}

/** These take a model's earlier thoughts, and switches of its template. */
const runsTemplates = (kind: UpstreamKind): boolean => kind === 'vllm' || kind === 'llama-server' || kind === 'baobab';

function thinkingFields({ reasoningEffort }: ChatRequest, kind: UpstreamKind): object {
  if (reasoningEffort === undefined) return {};
  if (kind === 'openai' || kind === 'baobab') return { reasoning_effort: reasoningEffort };
  if (reasoningEffort === 'none' && runsTemplates(kind)) return { chat_template_kwargs: { enable_thinking: false } };
  // Other servers refuse the levels that they do not know.
  const levels = { minimal: 'low', xhigh: 'high', max: 'high' } as Record<string, string>;
  return { reasoning_effort: levels[reasoningEffort] ?? reasoningEffort };
}

export function wireMessage(message: ChatMessage, kind: UpstreamKind): Record<string, unknown> {
  const calls = message.toolCalls?.map((call) => ({
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.arguments },
  }));
  return {
    role: message.role,
    // Some chat templates print an empty string as an empty answer before the calls.
    content: calls !== undefined && calls.length > 0 && message.content === '' ? null : wireContent(message),
    name: message.name,
    reasoning_content: runsTemplates(kind) ? message.reasoning : undefined,
    tool_calls: calls,
    tool_call_id: message.toolCallId,
  };
}

function wireContent({ content, images = [] }: ChatMessage): unknown {
  if (images.length === 0) return content;
  const parts: object[] = [];
  let from = 0;
  const addText = (to: number): void => {
    if (to > from) parts.push({ type: 'text', text: content.slice(from, to) });
    from = Math.max(from, to);
  };
  for (const image of images) {
    addText(image.at);
    parts.push(wireImage(image));
  }
  addText(content.length);
  return parts;
}

export const wireImage = ({ url, detail }: ImageInput): object => ({ type: 'image_url', image_url: { url, detail } });

/**
 * llama-server knows the choices 'none', 'auto' and 'required' only: to force one tool, it gets that one alone. Ollama knows none of them: it
 * gets a named tool alone too, and no tools if none may be called.
 */
export function offeredTools({ tools = [], toolChoice }: ChatRequest, kind: UpstreamKind): readonly ToolDefinition[] {
  if (kind !== 'llama-server' && kind !== 'ollama') return tools;
  if (toolChoice === 'none' && kind === 'ollama') return [];
  return typeof toolChoice === 'object' ? tools.filter(({ name }) => name === toolChoice.name) : tools;
}

function toolFields(request: ChatRequest, kind: UpstreamKind): object {
  const { toolChoice, parallelToolCalls } = request;
  const tools = offeredTools(request, kind);
  if (tools.length === 0) return {};
  const isForced = kind === 'llama-server' && typeof toolChoice === 'object';
  return {
    tools: tools.map(wireTool),
    tool_choice: isForced ? 'required' : wireToolChoice(toolChoice),
    parallel_tool_calls: parallelToolCalls,
  };
}

export function wireTool({ name, description, parameters, extra }: ToolDefinition): Record<string, unknown> {
  return {
    type: 'function',
    function: { ...extra, name, description, parameters: parameters ?? { type: 'object', properties: {} } },
  };
}

function wireToolChoice(choice: ToolChoice | undefined): unknown {
  return typeof choice === 'object' ? { type: 'function', function: { name: choice.name } } : choice;
}

function wireFormat(format: ChatRequest['format'], kind: UpstreamKind): unknown {
  if (format === undefined || format.type === 'text') return undefined;
  if (format.type === 'json_object') {
    // Without a schema llama-server does not constrain the answer.
    return kind === 'llama-server' ? { type: 'json_object', schema: { type: 'object' } } : { type: 'json_object' };
  }
  return {
    type: 'json_schema',
    json_schema: { name: format.name ?? 'response', schema: format.schema, strict: format.strict ?? true },
  };
}
