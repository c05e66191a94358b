import type {
  CallContext,
  ChatRequest,
  EmbeddingRequest,
  EmbeddingResult,
  GenerationSink,
  RerankRequest,
  RerankResult,
  TranscriptionRequest,
  TranscriptionResult,
} from '@baobab/core/engine/engine.ts';
import type { FrameChannel } from '@baobab/core/engine/wire/frames.ts';
import { splitImages } from '@baobab/core/engine/wire/image-urls.ts';
import { splitPrompt } from '@baobab/core/engine/wire/long-texts.ts';
import {
  bytesOf,
  type CallBody,
  type FromEngine,
  floatsOf,
  fromWireError,
  packTexts,
  type ToEngine,
  type WireContext,
} from '@baobab/core/engine/wire/messages.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { GenerationStream, STREAM_CREDIT } from './generation-stream.ts';
import type { HangMonitor } from './hang-monitor.ts';

/** The process ended before it had answered. Clients never see it: the engine retries the call or translates it. */
export class EngineCrash extends Error {
  override readonly name = 'EngineCrash';
  /** Whether the process may have hung on this call; another process would hang on it too. */
  readonly suspect: boolean;
  /** The end of what it printed, for operators. */
  readonly log: string | undefined;

  constructor(reason: string, { suspect = false, log }: { suspect?: boolean; log?: string | undefined } = {}) {
    super(reason);
    this.suspect = suspect;
    this.log = log;
  }
}

export interface PendingCall {
  onResult(value: unknown, body: Uint8Array): void;
  onError(error: Error): void;
  /** Where the body of the result goes; memory of its own otherwise. */
  bufferFor?: ((value: unknown) => Uint8Array) | undefined;
  stream?: GenerationStream;
  /** It was sent when the process had been silent already, so the process does not hang on it. */
  sentIntoSilence?: boolean;
}

export interface Answer {
  value: unknown;
  body: Uint8Array;
}

type CallAnswer = Extract<FromEngine, { type: 'result' | 'end' | 'error' }>;

/** The calls that an engine process works on, by the ids of their frames. */
export class PendingCalls {
  readonly #channel: FrameChannel<ToEngine>;
  readonly #monitor: Pick<HangMonitor, 'progress' | 'silent'>;
  readonly #pending = new Map<number, PendingCall>();
  /** Cancelled calls that the engine has not acknowledged yet, with the age of the cancel in heartbeats. */
  readonly #cancelled = new Map<number, number>();
  #lastId = 0;
  #goneBecause: string | undefined;

  constructor(channel: FrameChannel<ToEngine>, monitor: Pick<HangMonitor, 'progress' | 'silent'>) {
    this.#channel = channel;
    this.#monitor = monitor;
  }

  /** Whether the process has work that does not wait for the server. */
  isBusy(): boolean {
    return this.#cancelled.size > 0 || this.#pending.values().some((call) => call.stream?.isBlocked !== true);
  }

  get(id: number): PendingCall | undefined {
    return this.#pending.get(id);
  }

  /** Sends a call as soon as the pipe takes it, most often at once. Returns its id. */
  send(call: CallBody, context: CallContext, entry: PendingCall, payload?: Uint8Array): number | Promise<number> {
    if (!this.#channel.isFull()) return this.#sendNow(call, context, entry, payload);
    return this.#channel.drained().then(() => this.#sendNow(call, context, entry, payload));
  }

  /** One call with one answer. */
  async request(
    call: CallBody,
    context: CallContext,
    extra: { payload?: Uint8Array; bufferFor?: PendingCall['bufferFor'] } = {},
  ): Promise<Answer> {
    const answer = Promise.withResolvers<Answer>();
    answer.promise.catch(() => {});
    const entry: PendingCall = {
      onResult: (value, body) => answer.resolve({ value, body }),
      onError: answer.reject,
      bufferFor: extra.bufferFor,
    };
    const sent = this.send(call, context, entry, extra.payload);
    const id = typeof sent === 'number' ? sent : await sent;
    const onAbort = () => {
      this.#pending.delete(id);
      this.cancel(id);
      answer.reject(cancellation(context.signal));
    };
    context.signal.addEventListener('abort', onAbort);
    try {
      return await answer.promise;
    } finally {
      context.signal.removeEventListener('abort', onAbort);
    }
  }

  cancel(id: number): void {
    if (this.#goneBecause !== undefined) return;
    this.#cancelled.set(id, 0);
    this.#channel.write({ type: 'cancel', id });
  }

  credit(id: number, count: number): void {
    this.#channel.write({ type: 'credit', id, count });
  }

  /** Counts one heartbeat for every cancelled call; returns the age of the oldest. */
  ageOfCancels(): number {
    let oldest = 0;
    for (const [id, age] of this.#cancelled) {
      this.#cancelled.set(id, age + 1);
      oldest = Math.max(oldest, age + 1);
    }
    return oldest;
  }

  settle(message: CallAnswer, body: Uint8Array): void {
    const call = this.#pending.get(message.id);
    this.#pending.delete(message.id);
    this.#cancelled.delete(message.id);
    if (message.type === 'result') call?.onResult(message.value, body);
    else if (message.type === 'end') call?.stream?.onEnd(message.usage);
    else if (call?.stream !== undefined) call.stream.onError(fromWireError(message.error), message.usage);
    else call?.onError(fromWireError(message.error));
  }

  /** The process is gone: fails all calls and those that come later. */
  failAll(reason: string, { hung }: { hung: boolean }): void {
    this.#goneBecause = reason;
    for (const call of this.#pending.values()) {
      call.onError(new EngineCrash(reason, { suspect: hung && call.sentIntoSilence !== true }));
    }
    this.#pending.clear();
    this.#cancelled.clear();
  }

  #sendNow(call: CallBody, context: CallContext, entry: PendingCall, payload: Uint8Array | undefined): number {
    if (context.signal.aborted) throw cancellation(context.signal);
    if (this.#goneBecause !== undefined) throw new EngineCrash(this.#goneBecause);
    const { signal: _, ...wire } = context;
    const id = ++this.#lastId;
    const message: ToEngine = { type: 'call', id, context: wire satisfies WireContext, call };
    if (this.#pending.size + this.#cancelled.size === 0) {
      this.#monitor.progress();
      // An idle process starts at once; for a busy one calls gather.
      this.#channel.write(message, payload);
    } else {
      this.#channel.writeSoon(message, payload);
    }
    entry.sentIntoSilence = this.#monitor.silent();
    this.#pending.set(id, entry);
    return id;
  }
}

/** Returns the part of the request's own result buffer that an answer belongs to. */
type VectorBuffer = (dimensions: number) => Float32Array;

/** What an engine process can be asked. */
export interface EngineMethods {
  embed(request: EmbeddingRequest, context: CallContext, bufferFor?: VectorBuffer): Promise<EmbeddingResult>;
  rerank(request: RerankRequest, context: CallContext): Promise<RerankResult>;
  generate(request: ChatRequest, context: CallContext, sink: GenerationSink): Promise<void>;
  transcribe(request: TranscriptionRequest, context: CallContext): Promise<TranscriptionResult>;
  countTokens(text: string, context: CallContext): Promise<number>;
  countChatTokens(request: ChatRequest, context: CallContext): Promise<number>;
  encodeChat(request: ChatRequest, context: CallContext): Promise<readonly number[]>;
  encode(text: string, special: boolean, context: CallContext): Promise<readonly number[]>;
  decode(tokens: readonly number[], context: CallContext): Promise<string>;
}

/** Turns each method into a frame, and the frame of the answer into its result. */
export function createEngineMethods(calls: PendingCalls): EngineMethods {
  async function askOfPrompt(
    method: 'countChatTokens' | 'encodeChat',
    { logitBias: _, ...rest }: ChatRequest,
    context: CallContext,
  ): Promise<unknown> {
    const split = await splitPrompt(rest.prompt);
    const request = { ...rest, prompt: split?.prompt ?? rest.prompt };
    const call: CallBody = { method, request, longTexts: split?.longTexts ?? [] };
    return (await calls.request(call, context, split && { payload: split.body })).value;
  }

  return {
    async embed({ inputs, ...options }, context, bufferFor) {
      const sent = inputs.every((input) => typeof input === 'string')
        ? { inputs: null, ...packTexts(inputs) }
        : await splitImages(inputs);
      const call: CallBody = { method: 'embed', inputs: sent.inputs, byteLengths: sent.byteLengths, ...options };
      const { value, body } = await calls.request(call, context, {
        payload: sent.body,
        bufferFor: bufferFor && ((header) => bytesOf(bufferFor((header as EmbeddingResult).dimensions))),
      });
      return { ...(value as Omit<EmbeddingResult, 'vectors'>), vectors: floatsOf(body) };
    },

    async rerank({ query, documents, ...options }, context) {
      const { byteLengths, body: payload } = packTexts([query, ...documents]);
      const { value, body } = await calls.request({ method: 'rerank', byteLengths, ...options }, context, { payload });
      return { ...(value as Omit<RerankResult, 'scores'>), scores: floatsOf(body) };
    },

    generate({ logitBias, ...rest }, context, sink) {
      const stream = new GenerationStream(context, sink);
      return stream.run(async () => {
        const split = await splitPrompt(rest.prompt);
        const bias = logitBias === undefined ? {} : { logitBias: [...logitBias] };
        const request = { ...rest, ...bias, prompt: split?.prompt ?? rest.prompt };
        const { longTexts = [], body } = split ?? {};
        const call: CallBody = { method: 'generate', request, longTexts, credit: STREAM_CREDIT };
        const entry: PendingCall = {
          onResult: () => stream.onEnd(),
          onError: (error) => stream.onError(error),
          stream,
        };
        const id = await calls.send(call, context, entry, body);
        return { cancel: () => calls.cancel(id), credit: (count) => calls.credit(id, count) };
      });
    },

    async transcribe({ samples, ...rest }, context) {
      const { value } = await calls.request({ method: 'transcribe', ...rest }, context, { payload: bytesOf(samples) });
      return value as TranscriptionResult;
    },

    async countTokens(text, context) {
      const { value } = await calls.request({ method: 'countTokens', text }, context);
      return value as number;
    },

    countChatTokens: async (request, context) => (await askOfPrompt('countChatTokens', request, context)) as number,
    encodeChat: async (request, context) => (await askOfPrompt('encodeChat', request, context)) as number[],

    async encode(text, special, context) {
      const { byteLengths, body: payload } = packTexts([text]);
      const { value } = await calls.request({ method: 'encode', byteLengths, special }, context, { payload });
      return value as number[];
    },

    async decode(tokens, context) {
      const { value } = await calls.request({ method: 'decode', tokens }, context);
      return value as string;
    },
  };
}
