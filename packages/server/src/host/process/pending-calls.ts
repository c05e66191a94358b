import type { CallContext } from '@baobab/core/engine/engine.ts';
import type { FrameChannel } from '@baobab/core/engine/wire/frames.ts';
import {
  type CallBody,
  type FromEngine,
  fromWireError,
  type ToEngine,
  type WireContext,
} from '@baobab/core/engine/wire/messages.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { EngineCrash } from './engine-crash.ts';
import type { GenerationStream } from './generation-stream.ts';
import type { HangMonitor } from './hang-monitor.ts';

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
