import type { FieldPath } from '../../errors/fields.ts';
import type { CallContext, ChatMessage, ChatRequest } from '../engine.ts';
import { wireMessage, wireTool } from './chat/request.ts';
import type { Upstream, UpstreamKind } from './routing/upstream.ts';
import { createUpstreamCall, type UpstreamCall } from './routing/upstream-call.ts';
import { estimatePromptTokens, estimateTokens } from './token-estimate.ts';

const COUNT_TIMEOUT_MS = 2_000;

const canCountTokens = (kind: UpstreamKind): boolean => kind === 'vllm' || kind === 'llama-server' || kind === 'tei';
const canCountChats = (kind: UpstreamKind): boolean => kind === 'baobab' || canCountTokens(kind);

/** The tokens of each text as the upstream counts them, special tokens included. Undefined if it cannot count. */
export async function countAtUpstream(
  call: UpstreamCall,
  texts: readonly string[],
  field: FieldPath,
): Promise<number[] | undefined> {
  const { kind } = call.upstream.settings;
  if (!canCountTokens(kind)) return undefined;
  const ask = async (body: object): Promise<unknown> =>
    (await call.fetchJson({ base: 'root', route: '/tokenize', body: JSON.stringify(body), field })).json;

  if (kind === 'tei') return arrayOf(await ask({ inputs: texts }))?.map((tokens) => arrayOf(tokens)?.length ?? 0);
  const counts: number[] = [];
  for (const text of texts) {
    const answer = await ask(
      kind === 'vllm' ? { model: call.upstream.model, prompt: text } : { content: text, add_special: true },
    );
    const tokens = kind === 'vllm' ? property(answer, 'count') : arrayOf(property(answer, 'tokens'))?.length;
    if (typeof tokens !== 'number') return undefined;
    counts.push(tokens);
  }
  return counts;
}

export interface TokenCounterOptions {
  slug: string;
  contextLength: number;
  members(): readonly Upstream[];
}

/** Counts tokens at an upstream, or estimates them. Needs no slot: counting is light, and callers do it before they queue. */
export function createTokenCounter({ slug, contextLength, members }: TokenCounterOptions) {
  async function count(
    region: string | undefined,
    canCount: (kind: UpstreamKind) => boolean,
    estimate: () => number,
    ask: (call: UpstreamCall) => Promise<number | undefined>,
  ): Promise<number> {
    const upstream = members().find(
      (each) => canCount(each.settings.kind) && each.available() && (region === undefined || each.region === region),
    );
    if (upstream === undefined) return estimate();
    const context = internalContext(COUNT_TIMEOUT_MS);
    const call = createUpstreamCall({ upstream, context, slug, contextLength, onRelease() {} });
    try {
      return (await ask(call)) ?? estimate();
    } catch {
      return estimate();
    } finally {
      call.release();
    }
  }

  return {
    text: (text: string, region: string | undefined) =>
      count(
        region,
        canCountTokens,
        () => estimateTokens(text),
        async (call) => (await countAtUpstream(call, [text], ['inputs']))?.[0],
      ),
    chat: (request: ChatRequest, region: string | undefined) =>
      count(
        region,
        canCountChats,
        () => estimatePromptTokens(request),
        (call) => countChatAtUpstream(call, request),
      ),
  };
}

/** The tokens of a chat as the upstream's template writes it. Undefined if it cannot count. */
async function countChatAtUpstream(
  call: UpstreamCall,
  { prompt, tools = [] }: ChatRequest,
): Promise<number | undefined> {
  if (!('messages' in prompt)) return undefined;
  const { kind } = call.upstream.settings;
  const ask = async (route: string, body: object): Promise<unknown> =>
    (await call.fetchJson({ base: 'root', route, body: JSON.stringify(body), field: ['messages'] })).json;
  const chat = {
    messages: prompt.messages.map((message) => wireMessage(message, kind)),
    ...(tools.length > 0 && { tools: tools.map(wireTool) }),
  };
  if (kind === 'vllm') {
    const answer = await ask('/tokenize', { model: call.upstream.model, ...chat, add_generation_prompt: true });
    const tokens = property(answer, 'count');
    return typeof tokens === 'number' ? tokens : undefined;
  }
  if (kind === 'baobab') {
    const body = { model: call.upstream.model, input: prompt.messages.flatMap(toItems), tools: tools.map(toFunction) };
    const tokens = property(await ask('/v1/responses/input_tokens', body), 'input_tokens');
    return typeof tokens === 'number' ? tokens : undefined;
  }
  if (kind !== 'llama-server') return undefined;
  const written = property(await ask('/apply-template', chat), 'prompt');
  if (typeof written !== 'string') return undefined;
  const answer = await ask('/tokenize', { content: written, add_special: true, parse_special: true });
  return arrayOf(property(answer, 'tokens'))?.length;
}

/** A message in the form of the Responses API, which counts tokens at another Baobab. */
function toItems({ role, content, reasoning, toolCalls = [], toolCallId, images = [] }: ChatMessage): object[] {
  if (role === 'tool') return [{ type: 'function_call_output', call_id: toolCallId, output: content }];
  const text = { type: role === 'assistant' ? 'output_text' : 'input_text', text: content };
  const pictures = images.map(({ url, detail }) => ({ type: 'input_image', image_url: url, detail }));
  return [
    ...(reasoning ? [{ type: 'reasoning', content: [{ type: 'reasoning_text', text: reasoning }], summary: [] }] : []),
    ...(content !== '' || role !== 'assistant' ? [{ type: 'message', role, content: [text, ...pictures] }] : []),
    ...toolCalls.map((made) => ({
      type: 'function_call',
      call_id: made.id,
      name: made.name,
      arguments: made.arguments,
    })),
  ];
}

const toFunction = ({ name, description, parameters }: NonNullable<ChatRequest['tools']>[number]): object => ({
  type: 'function',
  name,
  description,
  parameters,
});

/** For calls that no client's request makes. */
function internalContext(timeoutMs: number): CallContext {
  return {
    requestId: 'internal',
    signal: AbortSignal.timeout(timeoutMs),
    accountId: '',
    keyId: '',
    priority: 'interactive',
  };
}

const arrayOf = (value: unknown): unknown[] | undefined => (Array.isArray(value) ? value : undefined);
const property = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Object.getOwnPropertyDescriptor(value, name)?.value : undefined;
