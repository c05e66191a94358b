import { createInnerText } from '../../../runtime/inner-text.ts';
import type { ChatEvent, TokenLogprob, TokenUsage } from '../../engine.ts';
import { estimateTokens } from '../token-estimate.ts';

type EndReason = Extract<ChatEvent, { type: 'end' }>['reason'];

/** The fields we read of a chat or completion answer, streamed or whole. */
interface WireChunk {
  error?: unknown;
  choices?: WireChoice[];
  usage?: WireUsage | null;
  /** llama-server with `timings_per_token`. */
  timings?: { prompt_n?: number; cache_n?: number; predicted_n?: number };
}
interface WireChoice {
  delta?: WireDelta;
  message?: WireDelta;
  text?: string;
  finish_reason?: string | null;
  /** vLLM: the stop sequence, or the id of a token. */
  stop_reason?: string | number | null;
  logprobs?: WireLogprobs | null;
}
interface WireDelta {
  content?: string | null;
  reasoning?: string | null;
  reasoning_content?: string | null;
  tool_calls?: WireToolCall[] | null;
}
interface WireToolCall {
  index?: number;
  id?: string;
  function?: { name?: string; arguments?: string | Record<string, unknown> | null };
}
interface WireUsage {
  prompt_tokens?: number;
  completion_tokens?: number;
  prompt_tokens_details?: { cached_tokens?: number } | null;
  cache_read_tokens?: number;
}
interface WireLogprobs {
  content?: WireTokenLogprob[] | null;
  tokens?: string[];
  token_logprobs?: (number | null)[];
  top_logprobs?: (Record<string, number> | null)[];
}
interface WireTokenLogprob {
  token: string;
  logprob: number;
  bytes?: number[] | null;
  top_logprobs?: WireTokenLogprob[];
}

export interface ChatChunks {
  /** Adds the events of one chunk to `out`. Returns the chunk instead if it reports a failure. */
  read(payload: string, out: ChatEvent[]): unknown;
  /** The same for an answer that is one piece of JSON. */
  readWhole(answer: unknown, out: ChatEvent[]): unknown;
  readonly usage: TokenUsage;
  /** Whether the upstream reported the prompt's tokens. */
  readonly promptIsCounted: boolean;
  /** Whether the upstream reported how much of the prompt was cached. */
  readonly cachedIsCounted: boolean;
  readonly reason: EndReason | undefined;
  readonly stopSequence: string | undefined;
  readonly done: boolean;
}

/** Turns the chunks of one answer into events and counts tokens. Runs once for each token: it parses once and copies nothing. */
export function createChatChunks(estimatedPromptTokens: number): ChatChunks {
  const usage: TokenUsage = { promptTokens: estimatedPromptTokens, completionTokens: 0, cachedTokens: 0 };
  let completionIsCounted = false;
  let promptIsCounted = false;
  let cachedIsCounted = false;
  let reason: EndReason | undefined;
  let stopSequence: string | undefined;
  let done = false;
  let toolCalls = 0;
  /** Templates put line breaks between the thoughts and their tags. */
  const inner = createInnerText();

  const readUsage = (chunk: WireChunk): void => {
    const reported = chunk.usage;
    if (reported) {
      if (typeof reported.prompt_tokens === 'number') {
        usage.promptTokens = reported.prompt_tokens;
        promptIsCounted = true;
      }
      if (typeof reported.completion_tokens === 'number') {
        usage.completionTokens = reported.completion_tokens;
        completionIsCounted = true;
      }
      const cached = reported.prompt_tokens_details?.cached_tokens ?? reported.cache_read_tokens;
      if (typeof cached === 'number') {
        usage.cachedTokens = Math.min(cached, usage.promptTokens);
        cachedIsCounted = true;
      }
      return;
    }
    const timings = chunk.timings;
    if (typeof timings?.prompt_n !== 'number') return;
    usage.cachedTokens = timings.cache_n ?? 0;
    cachedIsCounted = true;
    usage.promptTokens = timings.prompt_n + usage.cachedTokens;
    promptIsCounted = true;
    if (typeof timings.predicted_n !== 'number') return;
    usage.completionTokens = timings.predicted_n;
    completionIsCounted = true;
  };

  const readToolCall = (call: WireToolCall, out: ChatEvent[]): void => {
    const { name, arguments: given } = call.function ?? {};
    // Some upstreams omit the index: each call with a name is then a new one.
    const index = call.index ?? (name ? toolCalls : Math.max(0, toolCalls - 1));
    toolCalls = Math.max(toolCalls, index + 1);
    const event: ChatEvent = {
      type: 'tool-call-delta',
      index,
      argumentsDelta: typeof given === 'string' ? given : given ? JSON.stringify(given) : '',
    };
    if (call.id) event.id = call.id;
    if (name) event.name = name;
    out.push(event);
  };

  const readChoice = (choice: WireChoice, out: ChatEvent[]): void => {
    const before = out.length;
    const delta = choice.delta ?? choice.message;
    const reasoning = delta?.reasoning ?? delta?.reasoning_content;
    const thoughts = reasoning ? inner.push(reasoning) : '';
    if (thoughts) out.push({ type: 'reasoning-delta', text: thoughts });
    const given = delta?.content ?? choice.text;
    // Some upstreams send content parts.
    const text = typeof given === 'string' ? given : '';
    const logprobs = choice.logprobs ? readLogprobs(choice.logprobs) : undefined;
    if (logprobs !== undefined && logprobs.length > 0) out.push({ type: 'text-delta', text, logprobs });
    else if (text) out.push({ type: 'text-delta', text });
    if (delta?.tool_calls) for (const call of delta.tool_calls) readToolCall(call, out);
    // One delta is about one token. The upstream's own counts replace this as soon as it sends them.
    if (!completionIsCounted && (out.length > before || reasoning)) usage.completionTokens += logprobs?.length || 1;
    if (choice.finish_reason) reason = endReason(choice.finish_reason, toolCalls > 0);
    if (typeof choice.stop_reason === 'string') stopSequence = choice.stop_reason;
  };

  const readChunk = (chunk: WireChunk, out: ChatEvent[]): unknown => {
    if (chunk.error) return chunk;
    readUsage(chunk);
    const choice = chunk.choices?.[0];
    if (choice === undefined) return undefined;
    // vLLM and Ollama report a failed generation in the finish reason instead of in an error.
    if (choice.finish_reason === 'abort' || choice.finish_reason === 'error') {
      return { error: { message: `the upstream ended with '${choice.finish_reason}'`, code: 500 } };
    }
    readChoice(choice, out);
    return undefined;
  };

  return {
    usage,
    get promptIsCounted() {
      return promptIsCounted;
    },
    get cachedIsCounted() {
      return cachedIsCounted;
    },
    get reason() {
      return reason;
    },
    get stopSequence() {
      return stopSequence;
    },
    get done() {
      return done;
    },
    read(payload, out) {
      if (payload === '[DONE]') {
        done = true;
        return undefined;
      }
      return readChunk(JSON.parse(payload), out);
    },
    readWhole(answer, out) {
      const before = out.length;
      const reported = readChunk((answer ?? {}) as WireChunk, out);
      if (!completionIsCounted)
        usage.completionTokens = Math.max(usage.completionTokens, estimateEvents(out.slice(before)));
      return reported;
    },
  };
}

function estimateEvents(events: readonly ChatEvent[]): number {
  const texts = events.map((event) => {
    if (event.type === 'text-delta' || event.type === 'reasoning-delta') return event.text;
    return event.type === 'tool-call-delta' ? `${event.name ?? ''}${event.argumentsDelta}` : '';
  });
  return estimateTokens(texts.join(''));
}

function endReason(given: string, calledTools: boolean): EndReason {
  if (given === 'length' || given === 'tool_calls') return given;
  // Older Ollama says `stop` after tool calls, and old OpenAI dialects `function_call`.
  return calledTools || given === 'function_call' ? 'tool_calls' : 'stop';
}

const bytesOf = (token: string): readonly number[] => [...Buffer.from(token, 'utf8')];

function readLogprobs({ content, tokens, token_logprobs, top_logprobs }: WireLogprobs): TokenLogprob[] {
  if (content)
    return content.map((entry) => ({ ...tokenLogprob(entry), top: (entry.top_logprobs ?? []).map(tokenLogprob) }));
  return (tokens ?? []).map((token, i) => ({
    ...tokenLogprob({ token, logprob: token_logprobs?.[i] ?? 0 }),
    top: Object.entries(top_logprobs?.[i] ?? {}).map(([other, logprob]) => tokenLogprob({ token: other, logprob })),
  }));
}

function tokenLogprob({ token, logprob, bytes }: WireTokenLogprob): Omit<TokenLogprob, 'top'> {
  return { token, logprob, bytes: bytes ?? bytesOf(token) };
}
