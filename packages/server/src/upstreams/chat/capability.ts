import { MOST_TEMPLATE_TOKENS } from '@baobab/core/domain/text-size.ts';
import type {
  CallContext,
  ChatCapability,
  ChatRequest,
  GenerationSink,
  TokenUsage,
} from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import { countWork, shareOf } from '@baobab/core/runtime/work.ts';
import { UpstreamFailure } from '../failure/failure.ts';
import { type CachedTokensEstimate, prefixKey } from '../routing/prefixes.ts';
import type { Route } from '../routing/router.ts';
import type { UpstreamCall } from '../routing/upstream-call.ts';
import { billedPromptTokensAtLeast, countPrompt, withRoomLeft } from '../token-counts.ts';
import { type AnswerPiece, ChatChunks } from './answer.ts';
import { AnswerFilter } from './answer-filter.ts';
import { PlainChunks } from './plain-chunks.ts';
import { chatBody, isStreamed } from './request.ts';
import { type ChatReader, StreamReader, WholeReader } from './stream.ts';

const NO_USAGE: TokenUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };

export const createRemoteChat = (route: Route): ChatCapability => ({
  generate: (request, context, sink) => new RoutedGeneration(route, request, context).run(sink),
});

interface Opened {
  reader: ChatReader;
  first: readonly AnswerPiece[];
}

/** A class: thousands of streams may be open. */
class RoutedGeneration {
  readonly #route: Route;
  readonly #request: ChatRequest;
  readonly #context: CallContext;
  readonly #estimatedPromptTokens: number;
  #takesJson = false;
  #chunks: ChatChunks | undefined;
  #region: string | undefined;
  #estimateCached: CachedTokensEstimate | undefined;

  constructor(route: Route, request: ChatRequest, context: CallContext) {
    this.#route = route;
    this.#request = request;
    this.#context = context;
    this.#estimatedPromptTokens = Math.min(billedPromptTokensAtLeast(request), route.contextLength);
  }

  async run(sink: GenerationSink): Promise<void> {
    const request = this.#request;
    this.#takesJson = sink.deliverJson !== undefined;
    let opened: [Opened, UpstreamCall];
    try {
      const key = () => prefixKey(this.#context.accountId, request);
      opened = await this.#route.open(this.#context, (each) => this.#attempt(each), key);
    } catch (error) {
      sink.used(this.#usage(), this.#region);
      throw error;
    }
    const [{ reader, first }, call] = opened;
    const { usage } = reader.chunks;
    const filter = new AnswerFilter(request, call.upstream.credentials);
    const hand = (pieces: readonly AnswerPiece[]): boolean | Promise<boolean> => {
      if (request.countsEach) sink.used(this.#usage(), this.#region);
      const handed = handEach(filter.push(pieces), sink);
      return handed instanceof Promise ? handed.then(() => filter.wantsMore) : filter.wantsMore;
    };
    let failure: UpstreamFailure | undefined;
    try {
      const { promptTokenIds } = reader.chunks;
      await sink.deliver({
        type: 'start',
        promptTokens: usage.promptTokens,
        cachedTokens: usage.cachedTokens,
        ...(promptTokenIds && { tokenIds: promptTokenIds }),
      });
      if (await hand(first)) await reader.deliver(hand);
      const held = filter.end();
      if (held.length > 0) await handEach(held, sink);
      if (!reader.chunks.promptIsCounted) {
        const estimate = this.#estimatedPromptTokens;
        reader.chunks.setPromptTokens(await countPrompt(request, call, { field: fieldOf(request), estimate }));
      }
      const { reason: given, stopSequence } = reader.chunks;
      if (given !== undefined || reader.chunks.done) {
        call.upstream.learned.reportsCachedTokens = reader.chunks.cachedIsCounted;
        call.upstream.prefixes?.observe(usage.cachedTokens);
      }
      const reason = filter.isCall ? 'tool_calls' : (given ?? 'stop');
      await sink.deliver({
        type: 'end',
        reason,
        usage: this.#usage(),
        ...(stopSequence !== undefined && { stopSequence }),
        ...(request.withTokenIds && { tokenIds: reader.chunks.tokenIds }),
      });
    } catch (error) {
      if (!(error instanceof UpstreamFailure)) throw error;
      failure = error;
      if (error.kind !== 'cancelled') await handEach(filter.release(), sink);
      if (error.kind === 'reset' || error.kind === 'broken') {
        throw errors.modelUnavailable(this.#route.slug, 'its answer broke off', error);
      }
      // A client that streams has the text already.
      throw error.kind === 'unparsed' ? error.apiError.withQuote(filter.wholeText) : error.apiError;
    } finally {
      reader.close();
      if (reader.chunks.isOvercounted) call.overcounted();
      const used = this.#usage();
      countWork(this.#context, used.promptTokens + used.completionTokens);
      call.release(failure);
      sink.used(used, this.#region);
    }
  }

  #usage(): TokenUsage {
    const chunks = this.#chunks;
    if (chunks === undefined) return NO_USAGE;
    const isInterrupted = chunks.reason === undefined && !chunks.done;
    if (!isInterrupted || chunks.cachedIsCounted || this.#estimateCached === undefined) return { ...chunks.usage };
    return { ...chunks.usage, cachedTokens: this.#estimateCached(chunks.usage.promptTokens) };
  }

  /** Nothing has been passed on before the first events, so another upstream may still take over. */
  async #attempt(call: UpstreamCall): Promise<Opened> {
    const request = this.#request;
    const { accountId, signal } = this.#context;
    const chunks = new ChatChunks({
      promptTokens: this.#estimatedPromptTokens,
      mostCompletionTokens: request.maxTokens ?? this.#route.contextLength,
    });
    if (this.#takesJson) chunks.plain = new PlainChunks();
    const { learned, prefixes } = call.upstream;
    this.#estimateCached = learned.reportsCachedTokens ? prefixes?.estimator(accountId, request) : undefined;
    let reader: ChatReader | undefined;
    try {
      reader = await this.#send(call, chunks);
      const first = await reader.first();
      if (learned.reportsCachedTokens !== false) prefixes?.remember(accountId, request);
      return { reader, first };
    } catch (error) {
      reader?.close();
      // An attempt that failed before any event has used nothing.
      if (!signal.aborted) this.#chunks = undefined;
      throw error;
    }
  }

  async #send(call: UpstreamCall, chunks: ChatChunks): Promise<ChatReader> {
    const route = this.#route;
    const request = this.#request;
    const { learned } = call.upstream;
    const isChat = 'messages' in request.prompt;
    const field = fieldOf(request);
    const bounded =
      isChat || request.maxTokens !== undefined
        ? request
        : await withRoomLeft(request, call, { contextLength: route.contextLength, field });
    const { beforeChat } = call.upstream.dialect;
    if (beforeChat !== undefined) {
      const { contextLength } = route;
      await beforeChat(request, {
        model: call.upstream.model,
        contextLength,
        field,
        send: (sent) => call.fetchJson(sent),
      });
    }
    for (;;) {
      const message = {
        base: 'api' as const,
        route: isChat ? '/chat/completions' : '/completions',
        body: await chatBody(bounded, call.upstream, this.#context.accountId),
        field,
      };
      chunks.mostPromptTokens = mostSentTokens(request, message.body, route.contextLength);
      try {
        if (isStreamed(request, call.upstream)) {
          const answer = await call.stream({ ...message, accept: 'text/event-stream' });
          this.#accepted(call, chunks);
          return new StreamReader(answer, { call, share: shareOf(this.#context), field, chunks });
        }
        this.#accepted(call, chunks);
        const answer = await call.fetchJson({
          ...message,
          answersWhenComplete: true,
          maxAnswerBytes: longestAnswer(request, route.contextLength),
        });
        return new WholeReader(answer, { call, field, chunks });
      } catch (error) {
        const wanted =
          error instanceof UpstreamFailure && /unsupported.*max_tokens.*max_completion_tokens/is.test(error.detail);
        if (!wanted || learned.wantsMaxCompletionTokens) throw error;
        learned.wantsMaxCompletionTokens = true;
      }
    }
  }

  /** The upstream has the request: a client that leaves from now on has used its prompt. */
  #accepted(call: UpstreamCall, chunks: ChatChunks): void {
    this.#chunks = chunks;
    this.#region = call.upstream.region;
  }
}

/** Each token is a byte at least of what was sent, or of the template. Images have tokens of their own. */
function mostSentTokens({ prompt }: ChatRequest, body: string, contextLength: number): number {
  if ('messages' in prompt && prompt.messages.some(({ images }) => images !== undefined)) return contextLength;
  return Math.min(contextLength, Buffer.byteLength(body) + MOST_TEMPLATE_TOKENS);
}

const MAX_ANSWER_BYTES = 256 * 1024 * 1024;
/** Ids, usage and what some servers add about the request. */
const ENVELOPE_BYTES = 1024 * 1024;
/** A token is a few characters; those of other scripts may be escaped, and servers may send the same text in two fields. */
const TOKEN_BYTES = 128;
/** A candidate of a token with its text, bytes and probability. */
const CANDIDATE_BYTES = 256;

/** Bytes of an answer that is sent whole: it has at most as many tokens as the context. */
export function longestAnswer({ logprobs }: Pick<ChatRequest, 'logprobs'>, contextLength: number): number {
  const candidates = logprobs === undefined ? 0 : 1 + logprobs.top;
  const bytes = ENVELOPE_BYTES + contextLength * (TOKEN_BYTES + candidates * CANDIDATE_BYTES);
  return Math.min(MAX_ANSWER_BYTES, bytes);
}

const fieldOf = ({ prompt }: ChatRequest): FieldPath => ['messages' in prompt ? 'messages' : 'prompt'];

/** Without a promise while the sink returns none. */
function handEach(pieces: readonly AnswerPiece[], sink: GenerationSink): void | Promise<void> {
  for (let index = 0; index < pieces.length; index += 1) {
    const taken = handOne(pieces[index] as AnswerPiece, sink);
    if (taken instanceof Promise) return handRest(taken, pieces.slice(index + 1), sink);
  }
}

async function handRest(taken: Promise<void>, rest: readonly AnswerPiece[], sink: GenerationSink): Promise<void> {
  await taken;
  for (const piece of rest) await handOne(piece, sink);
}

const handOne = (piece: AnswerPiece, sink: GenerationSink): void | Promise<void> =>
  typeof piece === 'string' ? sink.deliverJson?.(piece) : sink.deliver(piece);
