import type { CallContext, ChatRequest } from '@baobab/core/engine/engine.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import type { Ask, Dialect } from './dialects/dialect.ts';
import type { Upstream } from './routing/upstream.ts';
import { createUpstreamCall, type UpstreamCall } from './routing/upstream-call.ts';
import { billedPromptTokensAtLeast, billedTokensAtLeast } from './token-estimate.ts';

const COUNT_TIMEOUT_MS = 2_000;

/** The tokens of each text as the upstream counts them, special tokens included. Undefined if it cannot count. */
export const countAtUpstream = async (
  call: UpstreamCall,
  texts: readonly string[],
  field: FieldPath,
): Promise<number[] | undefined> =>
  call.upstream.dialect.countTexts?.(texts, call.upstream.model, askOver(call, field));

const askOver =
  (call: UpstreamCall, field: FieldPath): Ask =>
  async (route, body) =>
    (await call.fetchJson({ base: 'root', route, body: JSON.stringify(body), field })).json;

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
