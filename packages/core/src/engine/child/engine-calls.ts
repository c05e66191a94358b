import { cancellation } from '../../errors/cancellation.ts';
import type { CallContext, ChatEvent, EngineModel, GenerationSink, Priority, TokenUsage } from '../engine.ts';
import type { FrameChannel } from '../wire/frames.ts';
import { joinImages } from '../wire/image-urls.ts';
import { joinPrompt } from '../wire/long-texts.ts';
import {
  bytesOf,
  type CallBody,
  type FromEngine,
  floatsOf,
  type ToEngine,
  toWireError,
  unpackTexts,
} from '../wire/messages.ts';

type Call = Extract<ToEngine, { type: 'call' }>;

interface Running {
  priority: Priority;
  abort: AbortController;
  /** How many more events the server takes now. */
  credit: number;
  creditArrived: () => void;
}

/** The serving half of an engine process: runs calls on a loaded model and answers on the channel. */
export function createEngineCalls(model: EngineModel, channel: FrameChannel<FromEngine>) {
  const running = new Map<number, Running>();
  const pace = createAnswerPace();

  /** Sends what a generation delivers, as fast as the server takes it. */
  async function stream(id: number, call: Running, generate: (sink: GenerationSink) => Promise<void>): Promise<void> {
    const { signal } = call.abort;
    let usage: TokenUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };
    const send = (event: ChatEvent) => {
      if (signal.aborted) throw cancellation(signal);
      call.credit -= 1;
      channel.write({ type: 'event', id, event, usage });
    };
    const sendLater = async (event: ChatEvent) => {
      while (call.credit === 0 && !signal.aborted) {
        await new Promise<void>((resolve) => {
          call.creditArrived = resolve;
        });
      }
      send(event);
    };
    try {
      await generate({
        deliver: (event) => (call.credit > 0 ? send(event) : sendLater(event)),
        used: (current) => {
          usage = current;
        },
      });
      channel.write({ type: 'end', id, usage });
    } catch (error) {
      channel.write({ type: 'error', id, error: toWireError(error), usage });
    }
  }

  async function unary(call: Exclude<CallBody, { method: 'generate' }>, body: Uint8Array, context: CallContext) {
    switch (call.method) {
      case 'embed': {
        const { method: _, inputs: sent, byteLengths, ...options } = call;
        const inputs = sent === null ? unpackTexts(byteLengths, body) : joinImages({ inputs: sent, byteLengths, body });
        const { vectors, ...value } = await supported(model.embedding).embed({ ...options, inputs }, context);
        return { value, body: bytesOf(vectors) };
      }
      case 'rerank': {
        const { method: _, byteLengths, ...options } = call;
        const [query = '', ...documents] = unpackTexts(byteLengths, body);
        const { scores, ...value } = await supported(model.rerank).rerank({ ...options, query, documents }, context);
        return { value, body: bytesOf(scores) };
      }
      case 'transcribe': {
        const { method: _, ...options } = call;
        const request = { ...options, samples: floatsOf(body) };
        return { value: await supported(model.transcription).transcribe(request, context) };
      }
      case 'countTokens':
        return { value: await model.countTokens(call.text) };
      case 'encode': {
        const [text = ''] = unpackTexts(call.byteLengths, body);
        return { value: await supported(model.tokenizer).encode(text, call.special, context) };
      }
      case 'decode':
        return { value: await supported(model.tokenizer).decode(call.tokens, context) };
      case 'encodeChat':
      case 'countChatTokens': {
        const { logitBias: _, ...request } = call.request;
        const prompt = joinPrompt(request.prompt, call.longTexts, body);
        const { encode, countTokens } = supported(model.chat);
        const ask = supported(call.method === 'encodeChat' ? encode : countTokens);
        return { value: await ask({ ...request, prompt }, context) };
      }
    }
  }

  async function serve({ id, call, context: wire }: Call, body: Uint8Array): Promise<void> {
    const abort = new AbortController();
    const { priority } = wire;
    const entry: Running = {
      priority,
      abort,
      credit: call.method === 'generate' ? call.credit : 0,
      creditArrived: () => {},
    };
    if (running.size === 0) pace.begin();
    running.set(id, entry);
    const context: CallContext = { ...wire, signal: abort.signal };
    try {
      if (call.method === 'generate') {
        const { logitBias, ...request } = call.request;
        const bias = logitBias === undefined ? {} : { logitBias: new Map(logitBias) };
        const prompt = joinPrompt(request.prompt, call.longTexts, body);
        const chat = supported(model.chat);
        await stream(id, entry, (sink) => chat.generate({ ...request, ...bias, prompt }, context, sink));
      } else {
        const result = await unary(call, body, context);
        if (channel.isFull()) await channel.drained();
        running.delete(id);
        const answer: FromEngine = { type: 'result', id, value: result.value };
        // Interactive answers do not wait for those of batches.
        const alike = running.values().filter((other) => other.priority === priority);
        const gapMs = pace.gapMs(alike.toArray().length);
        if (running.size === 0) channel.write(answer, result.body);
        else channel.writeSoon(answer, result.body, gapMs);
      }
    } catch (error) {
      channel.write({ type: 'error', id, error: toWireError(error) });
    } finally {
      running.delete(id);
    }
  }

  return {
    start(call: Call, body: Uint8Array): void {
      void serve(call, body);
    },
    cancel(id: number): void {
      const call = running.get(id);
      call?.abort.abort();
      call?.creditArrived();
    },
    credit(id: number, count: number): void {
      const call = running.get(id);
      if (call === undefined) return;
      call.credit += count;
      call.creditArrived();
    },
  };
}

function supported<T>(capability: T | undefined): T {
  if (capability === undefined) throw new Error('The loaded model lacks the capability of this call');
  return capability;
}

/**
 * How long a busy engine process holds answers back to send several together. Ten answers at once cost the server far less than ten
 * single ones: its code stays in the cache, and one write makes ten ledger rows durable. The wait is short enough that the clients'
 * next requests arrive long before the process runs out of work.
 */
interface AnswerPace {
  /** A call came to an idle process. */
  begin(): void;
  /** How long to hold an answer while this many other calls wait. 0: send it at once. */
  gapMs(waiting: number): number;
}

/** With fewer waiting calls every answer is sent at once. */
const MIN_WAITING = 8;
/** Share of the time that the waiting calls will take. */
const SHARE_OF_BACKLOG = 1 / 4;
const MAX_GAP_MS = 40;
/** Over how many answers the time for one is smoothed. */
const MEMORY = 16;

export function createAnswerPace(now: () => number = () => performance.now()): AnswerPace {
  let lastAt = now();
  let callMs = 0;

  return {
    begin() {
      lastAt = now();
    },
    gapMs(waiting) {
      const at = now();
      callMs += (at - lastAt - callMs) / MEMORY;
      lastAt = at;
      return waiting < MIN_WAITING ? 0 : Math.min(MAX_GAP_MS, waiting * callMs * SHARE_OF_BACKLOG);
    },
  };
}
