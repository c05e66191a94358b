import type { FieldPath } from '../../errors/fields.ts';
import type { CallContext } from '../engine.ts';
import type { Upstream, UpstreamKind } from './routing/upstream.ts';
import { createUpstreamCall, type UpstreamCall } from './routing/upstream-call.ts';
import { estimateTokens } from './token-estimate.ts';

const COUNT_TIMEOUT_MS = 2_000;

const canCountTokens = (kind: UpstreamKind): boolean => kind === 'vllm' || kind === 'llama-server' || kind === 'tei';

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
  upstreams: readonly Upstream[];
}

/** Counts the tokens of a text at an upstream, or estimates them. Needs no slot: counting is light, and callers do it before they queue. */
export function createTokenCounter({ slug, contextLength, upstreams }: TokenCounterOptions) {
  return async (text: string, region: string | undefined): Promise<number> => {
    const upstream = upstreams.find(
      (each) =>
        canCountTokens(each.settings.kind) && each.available() && (region === undefined || each.region === region),
    );
    if (upstream === undefined) return estimateTokens(text);
    const context = internalContext(COUNT_TIMEOUT_MS);
    const call = createUpstreamCall({ upstream, context, slug, contextLength, onRelease() {} });
    try {
      return (await countAtUpstream(call, [text], ['inputs']))?.[0] ?? estimateTokens(text);
    } catch {
      return estimateTokens(text);
    } finally {
      call.release();
    }
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

const arrayOf = (value: unknown): unknown[] | undefined => (Array.isArray(value) ? value : undefined);
const property = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Object.getOwnPropertyDescriptor(value, name)?.value : undefined;
