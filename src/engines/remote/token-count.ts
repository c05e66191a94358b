import type { CallContext, ChatRequest } from '../engine.ts';
import type { FailureScope } from './failure.ts';
import type { Lease } from './routing/lease.ts';
import type { UpstreamKind } from './routing/upstream.ts';

/** English text has about four characters to a token; used only where no upstream can count. */
const CHARACTERS_PER_TOKEN = 4;

export const estimateTokens = (text: string): number => Math.ceil(text.length / CHARACTERS_PER_TOKEN);

/** What the messages add around their text in common chat templates. */
const TOKENS_PER_MESSAGE = 4;

export function estimatePromptTokens({ prompt, tools }: ChatRequest): number {
  const toolTokens = tools === undefined || tools.length === 0 ? 0 : estimateTokens(JSON.stringify(tools));
  if ('tokens' in prompt) return prompt.tokens.length;
  if ('text' in prompt) return estimateTokens(prompt.text);
  return prompt.messages.reduce((sum, message) => {
    const calls = message.toolCalls?.reduce((n, call) => n + estimateTokens(call.name + call.arguments), 0) ?? 0;
    return sum + TOKENS_PER_MESSAGE + estimateTokens(message.content) + calls;
  }, toolTokens);
}

export const canCountTokens = (kind: UpstreamKind): boolean =>
  kind === 'vllm' || kind === 'llama-server' || kind === 'tei';

/** The tokens of each text as the upstream counts them, special tokens included; undefined where it cannot or does not. */
export async function countAtUpstream(
  lease: Lease,
  texts: readonly string[],
  scope: FailureScope,
): Promise<number[] | undefined> {
  const { kind } = lease.upstream.settings;
  if (!canCountTokens(kind)) return undefined;
  const ask = async (body: object): Promise<unknown> =>
    (await lease.sendForJson({ base: 'root', route: '/tokenize', body: JSON.stringify(body), scope })).json;

  if (kind === 'tei') return arrayOf(await ask({ inputs: texts }))?.map((tokens) => arrayOf(tokens)?.length ?? 0);
  const counts: number[] = [];
  for (const text of texts) {
    const answer = await ask(
      kind === 'vllm' ? { model: lease.upstream.model, prompt: text } : { content: text, add_special: true },
    );
    const tokens = kind === 'vllm' ? field(answer, 'count') : arrayOf(field(answer, 'tokens'))?.length;
    if (typeof tokens !== 'number') return undefined;
    counts.push(tokens);
  }
  return counts;
}

const arrayOf = (value: unknown): unknown[] | undefined => (Array.isArray(value) ? value : undefined);
const field = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Object.getOwnPropertyDescriptor(value, name)?.value : undefined;

/** For work on our own account, such as counting the tokens of a text. */
export function internalContext(timeoutMs: number): CallContext {
  return {
    requestId: 'internal',
    signal: AbortSignal.timeout(timeoutMs),
    accountId: '',
    keyId: '',
    priority: 'interactive',
  };
}
