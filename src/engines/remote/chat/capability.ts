import { errors } from '../../../errors/errors.ts';
import type { FieldPath } from '../../../errors/fields.ts';
import type { CallContext, ChatCapability, ChatEvent, ChatGeneration, ChatRequest, TokenUsage } from '../../engine.ts';
import { UpstreamFailure } from '../failure/failure.ts';
import { prefixKey } from '../routing/affinity.ts';
import type { CachedTokensEstimate } from '../routing/prefix-memory.ts';
import type { Route } from '../routing/router.ts';
import type { UpstreamCall } from '../routing/upstream-call.ts';
import { estimatePromptTokens, imageTokens } from '../token-estimate.ts';
import { countAtUpstream } from '../upstream-tokenizer.ts';
import { type ChatChunks, createChatChunks } from './answer.ts';
import { refuseWhatOllamaCuts } from './ollama-room.ts';
import { chatBody, isStreamed } from './request.ts';
import { createEventScrubber } from './scrubbed-events.ts';
import { type ChatReader, createStreamReader, createWholeReader } from './stream.ts';
import { createWrittenCall } from './written-call.ts';

export interface RemoteGeneration extends ChatGeneration {
  /** Undefined until an upstream has accepted the request. */
  servedRegion(): string | undefined;
}

export interface RemoteChat extends ChatCapability {
  generate(request: ChatRequest, context: CallContext): RemoteGeneration;
}

interface Progress {
  chunks?: ChatChunks | undefined;
  region?: string | undefined;
  estimateCached?: CachedTokensEstimate | undefined;
}

const NO_USAGE: TokenUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };

export function createRemoteChat(route: Route): RemoteChat {
  return {
    generate(request, context) {
      const progress: Progress = {};
      return {
        usageSoFar: () => usageSoFar(progress),
        servedRegion: () => progress.region,
        [Symbol.asyncIterator]: () => run(route, request, context, progress),
      };
    },
  };
}

function usageSoFar({ chunks, estimateCached }: Progress): TokenUsage {
  if (chunks === undefined) return NO_USAGE;
  const isInterrupted = chunks.reason === undefined && !chunks.done;
  if (!isInterrupted || chunks.cachedIsCounted || estimateCached === undefined) return { ...chunks.usage };
  return { ...chunks.usage, cachedTokens: estimateCached(chunks.usage.promptTokens) };
}

const fieldOf = ({ prompt }: ChatRequest): FieldPath => ['messages' in prompt ? 'messages' : 'prompt'];

async function* run(
  route: Route,
  request: ChatRequest,
  context: CallContext,
  progress: Progress,
): AsyncGenerator<ChatEvent, void, undefined> {
  const estimatedPromptTokens = estimatePromptTokens(request);

  // Nothing has been passed on before the first events, so another upstream may still take over.
  const attempt = async (call: UpstreamCall): Promise<{ reader: ChatReader; events: ChatEvent[] | undefined }> => {
    const chunks = createChatChunks(estimatedPromptTokens);
    const { learned, prefixes } = call.upstream;
    progress.estimateCached = learned.reportsCachedTokens ? prefixes?.estimator(context.accountId, request) : undefined;
    // The upstream has the request: a client that leaves from now on has used its prompt.
    const onAccepted = (): void => {
      progress.chunks = chunks;
      progress.region = call.upstream.region;
    };
    let reader: ChatReader | undefined;
    try {
      reader = await send({ route, request, context, call, chunks, onAccepted });
      const events = await reader.read();
      if (learned.reportsCachedTokens !== false) prefixes?.remember(context.accountId, request);
      return { reader, events };
    } catch (error) {
      reader?.close();
      // An attempt that failed before any event has used nothing.
      if (!context.signal.aborted) progress.chunks = undefined;
      throw error;
    }
  };

  const [{ reader, events: firstEvents }, call] = await route.open(context, attempt, () =>
    prefixKey(context.accountId, request),
  );
  const { usage } = reader.chunks;
  const { credentials } = call.upstream;
  const scrubber = credentials.length > 0 ? createEventScrubber(credentials) : undefined;
  const written = createWrittenCall(request);
  let failure: UpstreamFailure | undefined;
  try {
    yield { type: 'start', promptTokens: usage.promptTokens, cachedTokens: usage.cachedTokens };
    for (let events = firstEvents; events !== undefined; events = await reader.read()) {
      const seen = scrubber?.push(events) ?? events;
      for (const event of written?.push(seen) ?? seen) yield event;
      if (written?.isIdle) break;
    }
    if (scrubber !== undefined) for (const event of scrubber.end()) yield* written?.push([event]) ?? [event];
    if (written !== undefined) yield* written.end();
    if (!reader.chunks.promptIsCounted) {
      usage.promptTokens = await countPrompt(request, call, estimatedPromptTokens);
    }
    const { reason: given, stopSequence } = reader.chunks;
    if (given !== undefined || reader.chunks.done) {
      call.upstream.learned.reportsCachedTokens = reader.chunks.cachedIsCounted;
      call.upstream.prefixes?.observe(usage.cachedTokens);
    }
    const reason = written?.isCall ? 'tool_calls' : (given ?? 'stop');
    yield { type: 'end', reason, usage: usageSoFar(progress), ...(stopSequence !== undefined && { stopSequence }) };
  } catch (error) {
    if (!(error instanceof UpstreamFailure)) throw error;
    failure = error;
    throw error.kind === 'reset' || error.kind === 'broken'
      ? errors.modelUnavailable(route.slug, 'its answer broke off', error)
      : error.apiError;
  } finally {
    reader.close();
    call.release(failure);
  }
}

interface Sending {
  route: Route;
  request: ChatRequest;
  context: CallContext;
  call: UpstreamCall;
  chunks: ChatChunks;
  onAccepted(): void;
}

async function send({ route, request, context, call, chunks, onAccepted }: Sending): Promise<ChatReader> {
  const { learned } = call.upstream;
  const isChat = 'messages' in request.prompt;
  const bounded = isChat || request.maxTokens !== undefined ? request : await fillContext(route, request, call);
  const field = fieldOf(request);
  if (call.upstream.settings.kind === 'ollama') {
    await refuseWhatOllamaCuts(request, call, { contextLength: route.contextLength, field });
  }
  const post = async (): Promise<ChatReader> => {
    const message = {
      base: 'api' as const,
      route: isChat ? '/chat/completions' : '/completions',
      body: chatBody(bounded, call.upstream, context.accountId),
      field,
    };
    if (isStreamed(request, call.upstream)) {
      const answer = await call.stream({ ...message, accept: 'text/event-stream' });
      onAccepted();
      return createStreamReader(answer, { call, field, chunks });
    }
    onAccepted();
    const { json } = await call.fetchJson({ ...message, answersWhenComplete: true });
    return createWholeReader(json, { call, field, chunks });
  };
  try {
    return await post();
  } catch (error) {
    const wanted =
      error instanceof UpstreamFailure && /unsupported.*max_tokens.*max_completion_tokens/is.test(error.detail);
    if (!wanted || learned.wantsMaxCompletionTokens) throw error;
    learned.wantsMaxCompletionTokens = true;
    return post();
  }
}

/** By default /completions stops after 16 tokens, so "as many as fit" has to be a number. */
async function fillContext(route: Route, request: ChatRequest, call: UpstreamCall): Promise<ChatRequest> {
  const promptTokens = await countPrompt(request, call, 2 * estimatePromptTokens(request));
  return { ...request, maxTokens: Math.max(1, route.contextLength - promptTokens) };
}

async function countPrompt(request: ChatRequest, call: UpstreamCall, estimate: number): Promise<number> {
  const { prompt } = request;
  if ('tokens' in prompt) return prompt.tokens.length;
  const messages = 'text' in prompt ? [] : prompt.messages;
  const text = 'text' in prompt ? prompt.text : messages.map((message) => message.content).join('\n');
  try {
    const counted = (await countAtUpstream(call, [text], fieldOf(request)))?.[0];
    return counted === undefined ? estimate : messages.reduce((sum, message) => sum + imageTokens(message), counted);
  } catch {
    return estimate;
  }
}
