import { reservedTokens } from '@baobab/core/domain/text-size.ts';
import type { CallContext, ChatMessage, ChatRequest } from '@baobab/core/engine/engine.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import type { Ask, Dialect } from './dialects/dialect.ts';
import type { Upstream } from './routing/upstream.ts';
import { UpstreamCall } from './routing/upstream-call.ts';

/** What common chat templates add around each message. */
const TOKENS_PER_MESSAGE = 4;

/**
 * With the vocabularies of today's models, a token has about four bytes of UTF-8 in most scripts. For bills, and so rather too little than too
 * much: limits and budgets reserve more (domain/text-size.ts).
 */
const BYTES_PER_TOKEN = 4;
export const billedTokensAtLeast = (text: string): number => Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);

/** Used only where the upstream gives no count. */
export function billedPromptTokensAtLeast({ prompt, tools }: ChatRequest): number {
  if ('tokens' in prompt) return prompt.tokens.length;
  if ('text' in prompt) return billedTokensAtLeast(prompt.text);
  const toolTokens = tools === undefined || tools.length === 0 ? 0 : billedTokensAtLeast(JSON.stringify(tools));
  return prompt.messages.reduce((sum, message) => {
    const calls = message.toolCalls?.reduce((n, call) => n + billedTokensAtLeast(call.name + call.arguments), 0) ?? 0;
    return sum + TOKENS_PER_MESSAGE + billedTokensAtLeast(message.content) + calls + imageTokens(message);
  }, toolTokens);
}

const imageTokens = ({ images = [] }: ChatMessage): number => images.reduce((sum, { tokens }) => sum + tokens, 0);

const COUNT_TIMEOUT_MS = 2_000;

/** The tokens of each text as the upstream counts them, special tokens included. Undefined if it cannot count. */
export const countAtUpstream = async (
  call: UpstreamCall,
  texts: readonly string[],
  field: FieldPath,
): Promise<number[] | undefined> =>
  call.upstream.dialect.countTexts?.(texts, call.upstream.model, askOver(call, field));

export const askOver =
  (call: UpstreamCall, field: FieldPath): Ask =>
  async (route, body) =>
    (await call.fetchJson({ base: 'root', route, body: JSON.stringify(body), field, forTokens: true })).json;

/** The tokens of a prompt that the upstream has, without its template. */
export async function countPrompt(
  { prompt }: ChatRequest,
  call: UpstreamCall,
  { field, estimate }: { field: FieldPath; estimate: number },
): Promise<number> {
  if ('tokens' in prompt) return prompt.tokens.length;
  const messages = 'text' in prompt ? [] : prompt.messages;
  const text = 'text' in prompt ? prompt.text : messages.map((message) => message.content).join('\n');
  try {
    const counted = (await countAtUpstream(call, [text], field))?.[0];
    return counted === undefined ? estimate : messages.reduce((sum, message) => sum + imageTokens(message), counted);
  } catch {
    return estimate;
  }
}

/** By default /completions stops after 16 tokens, so "as many as fit" has to be a number. */
export async function withRoomLeft(
  request: ChatRequest,
  call: UpstreamCall,
  { contextLength, field }: { contextLength: number; field: FieldPath },
): Promise<ChatRequest> {
  const promptTokens = await countPrompt(request, call, { field, estimate: mostPromptTokens(request) });
  return { ...request, maxTokens: Math.max(1, contextLength - promptTokens) };
}

/** Twice the tokens of English text, or the most that a text in another script has. */
function mostPromptTokens(request: ChatRequest): number {
  const { prompt } = request;
  if (!('text' in prompt)) return billedPromptTokensAtLeast(request);
  return Math.max(Math.ceil(prompt.text.length / 2), reservedTokens(prompt.text));
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
    canCount: (dialect: Dialect) => boolean,
    estimate: () => number,
    ask: (call: UpstreamCall) => Promise<number | undefined>,
  ): Promise<number> {
    const upstream = members().find(
      (each) => canCount(each.dialect) && each.available() && (region === undefined || each.region === region),
    );
    if (upstream === undefined) return estimate();
    const context = internalContext(COUNT_TIMEOUT_MS);
    const call = new UpstreamCall({ upstream, context, slug, contextLength, onRelease() {}, onOvercount() {} });
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
        ({ countTexts }) => countTexts !== undefined,
        () => billedTokensAtLeast(text),
        async (call) => (await countAtUpstream(call, [text], ['inputs']))?.[0],
      ),
    chat(request: ChatRequest, region: string | undefined) {
      const { prompt, tools = [] } = request;
      return count(
        region,
        ({ countChat }) => countChat !== undefined,
        () => billedPromptTokensAtLeast(request),
        async (call) => {
          const { dialect, model } = call.upstream;
          if (!('messages' in prompt)) return undefined;
          return dialect.countChat?.({ messages: prompt.messages, tools }, model, askOver(call, ['messages']));
        },
      );
    },
  };
}

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
