import type { Dispatcher } from 'undici';
import { errors } from '../../../errors/errors.ts';
import type { CallContext, ChatCapability, ChatEvent, ChatGeneration, ChatRequest, TokenUsage } from '../../engine.ts';
import { type FailureScope, UpstreamFailure } from '../failure.ts';
import { type RemoteScope, scopeAt } from '../remote-scope.ts';
import type { Lease } from '../routing/lease.ts';
import { toApiError } from '../routing/router.ts';
import { countAtUpstream, estimatePromptTokens } from '../token-count.ts';
import { chatBody } from './request.ts';
import { type ChatReader, createChatReader } from './stream.ts';

export interface RemoteGeneration extends ChatGeneration {
  /** Where it runs; undefined until an upstream has accepted it. */
  servedRegion(): string | undefined;
}

export interface RemoteChat extends ChatCapability {
  generate(request: ChatRequest, context: CallContext): RemoteGeneration;
}

/** What is known of a generation while it runs. */
interface Progress {
  reader?: ChatReader | undefined;
  region?: string | undefined;
}

const NOTHING_USED: TokenUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };

export function createRemoteChat(remote: RemoteScope): RemoteChat {
  return {
    generate(request, context) {
      const progress: Progress = {};
      return {
        usageSoFar: () => ({ ...(progress.reader?.chunks.usage ?? NOTHING_USED) }),
        servedRegion: () => progress.region,
        [Symbol.asyncIterator]: () => run(remote, request, context, progress),
      };
    },
  };
}

async function* run(
  remote: RemoteScope,
  request: ChatRequest,
  context: CallContext,
  progress: Progress,
): AsyncGenerator<ChatEvent, void, undefined> {
  const param = 'messages' in request.prompt ? 'messages' : 'prompt';
  const estimate = estimatePromptTokens(request);

  // Up to the first events nothing has been sent on, so until then another address may take over.
  const attempt = async (lease: Lease): Promise<{ reader: ChatReader; events: ChatEvent[] | undefined }> => {
    const scope = scopeAt(remote, lease, param);
    const reader = createChatReader(await send(remote, request, lease, scope), lease, scope, estimate);
    progress.reader = reader;
    progress.region = lease.upstream.region;
    try {
      return { reader, events: await reader.read() };
    } catch (error) {
      reader.close();
      // Who cancels has used the prompt; an attempt that failed with nothing to show for has used nothing.
      if (!context.signal.aborted) progress.reader = undefined;
      throw error;
    }
  };

  let opened: Awaited<ReturnType<typeof attempt>>;
  let lease: Lease;
  try {
    [opened, lease] = await remote.router.open(context, remote.region, attempt);
  } catch (error) {
    throw toApiError(error);
  }

  const { reader } = opened;
  const { usage } = reader.chunks;
  let failure: UpstreamFailure | undefined;
  try {
    yield { type: 'start', promptTokens: usage.promptTokens, cachedTokens: usage.cachedTokens };
    for (let events = opened.events; events !== undefined; events = await reader.read()) {
      for (const event of events) yield event;
    }
    if (!reader.chunks.promptIsCounted) {
      usage.promptTokens = await countPrompt(request, lease, scopeAt(remote, lease, param), estimate);
    }
    yield { type: 'end', reason: reader.chunks.reason ?? 'stop', usage: { ...usage } };
  } catch (error) {
    if (!(error instanceof UpstreamFailure)) throw error;
    failure = error;
    throw error.kind === 'reset' || error.kind === 'broken'
      ? errors.modelUnavailable(remote.slug, 'its answer broke off', error)
      : error.apiError;
  } finally {
    reader.close();
    lease.release(failure);
  }
}

async function send(
  remote: RemoteScope,
  request: ChatRequest,
  lease: Lease,
  scope: FailureScope,
): Promise<Dispatcher.ResponseData> {
  const { learned } = lease.upstream;
  const isChat = 'messages' in request.prompt;
  const bounded =
    isChat || request.maxTokens !== undefined ? request : await fillContext(remote, request, lease, scope);
  const post = () =>
    lease.send({
      base: 'api',
      route: isChat ? '/chat/completions' : '/completions',
      body: chatBody(bounded, lease.upstream),
      accept: 'text/event-stream',
      scope,
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

/** /completions stops after 16 tokens unless told otherwise, so "as many as fit" has to be a number. */
async function fillContext(
  remote: RemoteScope,
  request: ChatRequest,
  lease: Lease,
  scope: FailureScope,
): Promise<ChatRequest> {
  const promptTokens = await countPrompt(request, lease, scope, 2 * estimatePromptTokens(request));
  return { ...request, maxTokens: Math.max(1, remote.contextLength - promptTokens) };
}

async function countPrompt(request: ChatRequest, lease: Lease, scope: FailureScope, estimate: number): Promise<number> {
  const { prompt } = request;
  if ('tokens' in prompt) return prompt.tokens.length;
  const text = 'text' in prompt ? prompt.text : prompt.messages.map((message) => message.content).join('\n');
  try {
    return (await countAtUpstream(lease, [text], scope))?.[0] ?? estimate;
  } catch {
    return estimate;
  }
}
