import type { ChatEvent, TokenLogprob, TokenUsage } from '@baobab/core/engine/engine.ts';
import { createInnerText, type InnerText } from '@baobab/core/runtime/inner-text.ts';
import { countOf } from '../answer-fields.ts';
import { billedTokensAtLeast } from '../token-counts.ts';
import { type ChunkFacts, type Counts, NO_COUNTS, type PlainChunks } from './plain-chunks.ts';
import { ToolCalls, type WireToolCall } from './tool-calls.ts';

type EndReason = Extract<ChatEvent, { type: 'end' }>['reason'];

/** An event, or a text as JSON if nothing else came with it. */
export type AnswerPiece = ChatEvent | string;

/** The fields we read of a chat or completion answer, streamed or whole. */
interface WireChunk {
  error?: unknown;
  choices?: WireChoice[];
  /** Of a chat; completions have them in the choice. */
  prompt_token_ids?: number[] | null;
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
  token_ids?: number[] | null;
  prompt_token_ids?: number[] | null;
}
interface WireDelta {
  content?: string | null;
  reasoning?: string | null;
  reasoning_content?: string | null;
  tool_calls?: WireToolCall[] | null;
}
interface WireUsage {
  prompt_tokens?: number;
  completion_tokens?: number;
  prompt_tokens_details?: { cached_tokens?: number } | null;
  completion_tokens_details?: { reasoning_tokens?: number } | null;
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

/** Used until the upstream has counted. */
interface Estimates {
  promptTokens: number;
  /** No answer has more. */
  mostCompletionTokens: number;
}

const NO_TOKENS: readonly number[] = [];
/** In UTF-8. */
const MOST_CHARACTER_BYTES = 3;

/**
 * Turns the chunks of one answer into events and counts tokens. Runs once for each token: it parses once and copies nothing. A class,
 * because V8 makes an object with getters a hash table.
 */
export class ChatChunks {
  readonly usage: TokenUsage;
  /** What was sent has no more tokens. */
  mostPromptTokens = Number.POSITIVE_INFINITY;
  /** The upstream reported more tokens than the request and its answer can have. They are not in `usage`. */
  isOvercounted = false;
  /** Whether the upstream reported the prompt's tokens. */
  promptIsCounted = false;
  /** Whether the upstream reported how much of the prompt was cached. */
  cachedIsCounted = false;
  reason: EndReason | undefined;
  stopSequence: string | undefined;
  promptTokenIds: readonly number[] | undefined;
  tokenIds: readonly number[] = NO_TOKENS;
  done = false;
  /** Where chunks that say nothing but a text may pass as they are. */
  plain: PlainChunks | undefined;
  readonly #mostCompletionTokens: number;
  /** Characters of the answer so far. */
  #received = 0;
  #completionIsCounted = false;
  #toolCalls: ToolCalls | undefined;
  /** Templates put line breaks between the thoughts and their tags. */
  #thoughts: InnerText | undefined;

  constructor({ promptTokens, mostCompletionTokens }: Estimates) {
    this.usage = { promptTokens, completionTokens: 0, cachedTokens: 0 };
    this.#mostCompletionTokens = mostCompletionTokens;
  }

  /** Adds what one chunk says to `out`. Returns the chunk instead if it reports a failure. */
  read(payload: string, out: AnswerPiece[]): unknown {
    if (payload === '[DONE]') {
      this.done = true;
      return undefined;
    }
    this.#received += payload.length;
    const { plain } = this;
    if (plain?.find(payload)) {
      this.#count(plain.counts);
      if (!this.#completionIsCounted) this.usage.completionTokens += 1;
      out.push(plain.json);
      return undefined;
    }
    const chunk: WireChunk = JSON.parse(payload);
    const reported = this.#readChunk(chunk, out);
    if (reported === undefined) plain?.learn(payload, factsOf(chunk), factsIn);
    return reported;
  }

  /** The same for an answer that is one piece of JSON of so many characters. */
  readWhole(answer: unknown, characters: number, out: AnswerPiece[]): unknown {
    this.#received += characters;
    const before = out.length;
    const reported = this.#readChunk((answer ?? {}) as WireChunk, out);
    if (!this.#completionIsCounted) {
      const estimate = Math.min(estimateEvents(out.slice(before)), this.#mostCompletionTokens);
      this.usage.completionTokens = Math.max(this.usage.completionTokens, estimate);
    }
    return reported;
  }

  #readChunk(chunk: WireChunk, out: AnswerPiece[]): unknown {
    if (chunk.error) return chunk;
    this.#count(countsOf(chunk));
    const choice = chunk.choices?.[0];
    if (choice === undefined) return undefined;
    // vLLM and Ollama report a failed generation in the finish reason instead of in an error.
    if (choice.finish_reason === 'abort' || choice.finish_reason === 'error') {
      return { error: { message: `the upstream ended with '${choice.finish_reason}'`, code: 500 } };
    }
    const promptTokenIds = chunk.prompt_token_ids ?? choice.prompt_token_ids;
    if (promptTokenIds) this.promptTokenIds = promptTokenIds;
    const before = out.length;
    this.#readChoice(choice, out);
    if (choice.token_ids) this.#tellTokens(choice.token_ids, before, out);
    return undefined;
  }

  #count({ prompt, completion, cached, hasHiddenThoughts }: Counts): void {
    this.#setPrompt(prompt);
    this.#setCompletion(countOf(completion), hasHiddenThoughts);
    this.#setCached(cached);
  }

  setPromptTokens(tokens: number): void {
    this.usage.promptTokens = this.#possible(tokens, this.mostPromptTokens);
  }

  #setPrompt(tokens: number | undefined): void {
    if (tokens === undefined) return;
    this.setPromptTokens(tokens);
    this.promptIsCounted = true;
  }

  /** A token of the answer is a byte at least. */
  #setCompletion(tokens: number | undefined, hasHiddenThoughts: boolean): void {
    if (tokens === undefined) return;
    const received = hasHiddenThoughts ? Number.POSITIVE_INFINITY : this.#received * MOST_CHARACTER_BYTES;
    this.usage.completionTokens = this.#possible(tokens, Math.min(this.#mostCompletionTokens, received));
    this.#completionIsCounted = true;
  }

  #possible(tokens: number, most: number): number {
    if (tokens <= most) return tokens;
    this.isOvercounted = true;
    return most;
  }

  #setCached(tokens: number | undefined): void {
    if (tokens === undefined) return;
    this.usage.cachedTokens = Math.min(tokens, this.usage.promptTokens);
    this.cachedIsCounted = true;
  }

  #readChoice(choice: WireChoice, out: AnswerPiece[]): void {
    const before = out.length;
    const delta = choice.delta ?? choice.message;
    const reasoning = delta?.reasoning ?? delta?.reasoning_content;
    const thoughts = reasoning ? this.#innerThoughts(reasoning) : '';
    if (thoughts) out.push({ type: 'reasoning-delta', text: thoughts });
    const given = delta?.content ?? choice.text;
    // Some upstreams send content parts.
    const text = typeof given === 'string' ? given : '';
    const logprobs = choice.logprobs ? readLogprobs(choice.logprobs) : undefined;
    if (logprobs !== undefined && logprobs.length > 0) out.push({ type: 'text-delta', text, logprobs });
    else if (text) out.push({ type: 'text-delta', text });
    if (delta?.tool_calls) {
      this.#toolCalls ??= new ToolCalls();
      for (const call of delta.tool_calls) out.push(this.#toolCalls.read(call));
    }
    // One delta is about one token. The upstream's own counts replace this as soon as it sends them.
    if (!this.#completionIsCounted && (out.length > before || reasoning)) {
      this.usage.completionTokens += logprobs?.length || 1;
    }
    if (choice.finish_reason)
      this.reason = endReason(choice.finish_reason, this.#toolCalls !== undefined && this.#toolCalls.count > 0);
    if (typeof choice.stop_reason === 'string') this.stopSequence = choice.stop_reason;
  }

  /** With the first event of the chunk, or of a later one if it has none. */
  #tellTokens(ids: readonly number[], before: number, out: AnswerPiece[]): void {
    this.tokenIds = [...this.tokenIds, ...ids];
    const first = out[before];
    if (typeof first !== 'object') return;
    out[before] = { ...first, tokenIds: this.tokenIds };
    this.tokenIds = NO_TOKENS;
  }

  #innerThoughts(text: string): string {
    this.#thoughts ??= createInnerText();
    return this.#thoughts.push(text);
  }
}

/** What the upstream itself has counted. */
function countsOf({ usage: reported, timings }: WireChunk): Counts {
  if (reported) {
    return {
      prompt: countOf(reported.prompt_tokens),
      completion: countOf(reported.completion_tokens),
      cached: countOf(reported.prompt_tokens_details?.cached_tokens ?? reported.cache_read_tokens),
      hasHiddenThoughts: (countOf(reported.completion_tokens_details?.reasoning_tokens) ?? 0) > 0,
    };
  }
  const evaluated = countOf(timings?.prompt_n);
  if (evaluated === undefined) return NO_COUNTS;
  const cached = countOf(timings?.cache_n) ?? 0;
  const completion = countOf(timings?.predicted_n);
  return { prompt: evaluated + cached, completion, cached, hasHiddenThoughts: false };
}

function factsOf(chunk: WireChunk): ChunkFacts {
  const choice = chunk.choices?.[0];
  const delta = choice?.delta ?? choice?.message;
  const text = delta?.content ?? choice?.text;
  const saysMore =
    chunk.error ||
    chunk.prompt_token_ids ||
    choice?.prompt_token_ids ||
    choice?.token_ids ||
    choice?.logprobs ||
    choice?.finish_reason ||
    typeof choice?.stop_reason === 'string' ||
    (delta?.reasoning ?? delta?.reasoning_content) ||
    (delta?.tool_calls && delta.tool_calls.length !== 0);
  return { text: saysMore || typeof text !== 'string' ? undefined : text, counts: countsOf(chunk) };
}

const factsIn = (payload: string): ChunkFacts => factsOf(JSON.parse(payload));

function estimateEvents(pieces: readonly AnswerPiece[]): number {
  const texts = pieces.map((event) => {
    if (typeof event === 'string') return event;
    if (event.type === 'text-delta' || event.type === 'reasoning-delta') return event.text;
    return event.type === 'tool-call-delta' ? `${event.name ?? ''}${event.argumentsDelta}` : '';
  });
  return billedTokensAtLeast(texts.join(''));
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
    token,
    logprob: token_logprobs?.[i] ?? null,
    bytes: bytesOf(token),
    top: Object.entries(top_logprobs?.[i] ?? {}).map(([other, logprob]) => tokenLogprob({ token: other, logprob })),
  }));
}

function tokenLogprob({ token, logprob, bytes }: WireTokenLogprob): TokenLogprob['top'][number] {
  return { token, logprob, bytes: bytes ?? bytesOf(token) };
}
