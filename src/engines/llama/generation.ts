import type { LlamaModel, Token } from 'node-llama-cpp';
import { errors } from '../../errors/errors.ts';
import type { CallContext, ChatEvent, ChatGeneration, ChatRequest, TokenUsage } from '../engine.ts';
import { type Channel, createChannel } from './channel.ts';
import type { ChatTemplate } from './chat-template.ts';
import { evaluate } from './evaluation.ts';
import { outputBudget } from './limits.ts';
import { createLogprobQueue, tokenLogprob } from './logprobs.ts';
import type { PromptTokenizer } from './prompt.ts';
import { samplingOptions, temperatureOf } from './sampling.ts';
import type { SlotPool } from './slots.ts';
import { createTextStream } from './text-stream.ts';
import type { Vocabulary } from './vocabulary.ts';

/** Events that wait for a slow consumer before its generation pauses. */
const BUFFERED_EVENTS = 32;

export interface GenerationDependencies {
  model: LlamaModel;
  vocabulary: Vocabulary;
  template: ChatTemplate;
  tokenizer: PromptTokenizer;
  slots: SlotPool;
  pieceTokens: number;
  contextLength: number;
  maxOutputTokens: number | null;
  /** Sharing a batch changes results: greedy answers run alone where sharing is no faster anyway. */
  greedyRunsAlone: boolean;
  randomSeed: () => number;
}

export function createGeneration(
  dependencies: GenerationDependencies,
  request: ChatRequest,
  context: CallContext,
): ChatGeneration {
  const usage: TokenUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };
  return {
    usageSoFar: () => ({ ...usage }),
    async *[Symbol.asyncIterator]() {
      const channel = createChannel<ChatEvent>(BUFFERED_EVENTS);
      const consumerGone = new AbortController();
      const signal = AbortSignal.any([context.signal, consumerGone.signal]);
      const wakeProducer = () => channel.close();
      signal.addEventListener('abort', wakeProducer, { once: true });
      const produced = produce({ dependencies, request, accountId: context.accountId, channel, signal, usage }).then(
        () => channel.end(),
        (error: unknown) => channel.end(error),
      );
      try {
        yield* channel.values();
      } finally {
        consumerGone.abort();
        await produced;
      }
    },
  };
}

interface Production {
  dependencies: GenerationDependencies;
  request: ChatRequest;
  accountId: string;
  channel: Channel<ChatEvent>;
  signal: AbortSignal;
  usage: TokenUsage;
}

async function produce({ dependencies, request, accountId, channel, signal, usage }: Production): Promise<void> {
  if (signal.aborted) throw errors.clientCancelled();
  const { model, vocabulary, slots, pieceTokens } = dependencies;
  const tokens = promptTokens(dependencies, request);
  const maxTokens = outputBudget({
    param: 'messages' in request.prompt ? 'messages' : 'prompt',
    promptTokens: tokens.length,
    contextLength: dependencies.contextLength,
    maxOutputTokens: dependencies.maxOutputTokens,
    maxTokens: request.maxTokens,
  });
  const temperature = temperatureOf(request);
  const reproducible = request.seed !== undefined || (temperature === 0 && dependencies.greedyRunsAlone);
  const lease = await slots.acquire({ accountId, tokens, reproducible, signal });
  let keep = false;
  try {
    usage.promptTokens = tokens.length;
    usage.cachedTokens = lease.cachedTokens;
    await channel.push({ type: 'start', promptTokens: tokens.length, cachedTokens: lease.cachedTokens });

    const generated: number[] = [];
    const text = createTextStream({
      stop: request.stop,
      dropLeadingSpace: vocabulary.addsLeadingSpace && 'messages' in request.prompt,
    });
    const logprobs = request.logprobs && createLogprobQueue();
    let sent = 0;
    const send = async (piece: string, upTo: number) => {
      sent += piece.length;
      const ready = logprobs?.take(upTo);
      if (piece === '' && (ready === undefined || ready.length === 0)) return;
      await channel.push({ type: 'text-delta', text: piece, ...(ready ? { logprobs: ready } : {}) });
    };

    const steps = evaluate({
      slot: lease.slot,
      tokens,
      cachedTokens: lease.cachedTokens,
      pieceTokens,
      reproducible,
      sampling: samplingOptions({ request, model, generated, maxTokens, randomSeed: dependencies.randomSeed }),
      probabilities: logprobs !== undefined,
      signal,
    });
    let reason: 'stop' | 'length' = 'stop';
    let stopped = false;
    for await (const { token, probabilities } of steps) {
      generated.push(token);
      usage.completionTokens++;
      const step = text.push(vocabulary.bytes(token));
      if (logprobs && probabilities && request.logprobs) {
        const { top } = request.logprobs;
        logprobs.add(tokenLogprob({ vocabulary, token, probabilities, temperature, top }), text.decodedLength);
      }
      await send(step.text, sent + step.text.length);
      if (step.stop) {
        stopped = true;
        break;
      }
      if (generated.length >= maxTokens) {
        reason = 'length';
        break;
      }
    }
    keep = true;
    if (!stopped) await send(text.flush(), Number.POSITIVE_INFINITY);
    await channel.push({ type: 'end', reason, usage: { ...usage } });
  } finally {
    await lease.release({ keep: keep || signal.aborted });
  }
}

function promptTokens({ template, tokenizer }: GenerationDependencies, request: ChatRequest): Token[] {
  const { prompt } = request;
  if ('messages' in prompt) {
    const tools = request.toolChoice === 'none' ? undefined : request.tools;
    return tokenizer.pieces(template.render({ messages: prompt.messages, tools }));
  }
  return 'text' in prompt ? tokenizer.text(prompt.text) : tokenizer.ids(prompt.tokens);
}
