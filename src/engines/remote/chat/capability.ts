import { errors } from '../../../errors/errors.ts';
import type { FieldPath } from '../../../errors/fields.ts';
import type { CallContext, ChatCapability, ChatEvent, ChatGeneration, ChatRequest, TokenUsage } from '../../engine.ts';
import { UpstreamFailure } from '../failure/failure.ts';
import type { Route } from '../routing/router.ts';
import type { UpstreamCall } from '../routing/upstream-call.ts';
import { estimatePromptTokens } from '../token-estimate.ts';
import type { StreamedAnswer } from '../transport/stream-client.ts';
import { countAtUpstream } from '../upstream-tokenizer.ts';
import { chatBody } from './request.ts';
import { type ChatReader, createChatReader } from './stream.ts';

export interface RemoteGeneration extends ChatGeneration {
  /** Undefined until an upstream has accepted the request. */
  servedRegion(): string | undefined;
}

export interface RemoteChat extends ChatCapability {
  generate(request: ChatRequest, context: CallContext): RemoteGeneration;
}

interface Progress {
  reader?: ChatReader | undefined;
  region?: string | undefined;
}

const NO_USAGE: TokenUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };

export function createRemoteChat(route: Route): RemoteChat {
  return {
    generate(request, context) {
      const progress: Progress = {};
      return {
        usageSoFar: () => ({ ...(progress.reader?.chunks.usage ?? NO_USAGE) }),
        servedRegion: () => progress.region,
        [Symbol.asyncIterator]: () => run(route, request, context, progress),
      };
    },
  };
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
    const answer = await send(route, request, call, context.accountId);
    const reader = createChatReader({ answer, call, field: fieldOf(request), estimatedPromptTokens });
    progress.reader = reader;
    progress.region = call.upstream.region;
    try {
      return { reader, events: await reader.read() };
    } catch (error) {
      reader.close();
      // A cancelled request has used its prompt. An attempt that failed before any event has used nothing.
      if (!context.signal.aborted) progress.reader = undefined;
      throw error;
    }
  };

  const [{ reader, events: firstEvents }, call] = await route.open(context, attempt);
  const { usage } = reader.chunks;
  let failure: UpstreamFailure | undefined;
  try {
    yield { type: 'start', promptTokens: usage.promptTokens, cachedTokens: usage.cachedTokens };
    for (let events = firstEvents; events !== undefined; events = await reader.read()) {
      for (const event of events) yield event;
    }
    if (!reader.chunks.promptIsCounted) {
      usage.promptTokens = await countPrompt(request, call, estimatedPromptTokens);
    }
    yield { type: 'end', reason: reader.chunks.reason ?? 'stop', usage: { ...usage } };
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

async function send(
  route: Route,
  request: ChatRequest,
  call: UpstreamCall,
  accountId: string,
): Promise<StreamedAnswer> {
  const { learned } = call.upstream;
  const isChat = 'messages' in request.prompt;
  const bounded = isChat || request.maxTokens !== undefined ? request : await fillContext(route, request, call);
  const post = () =>
    call.stream({
      base: 'api',
      route: isChat ? '/chat/completions' : '/completions',
      body: chatBody(bounded, call.upstream, accountId),
      accept: 'text/event-stream',
      field: fieldOf(request),
    });
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
  const text = 'text' in prompt ? prompt.text : prompt.messages.map((message) => message.content).join('\n');
  try {
    return (await countAtUpstream(call, [text], fieldOf(request)))?.[0] ?? estimate;
  } catch {
    return estimate;
  }
}
