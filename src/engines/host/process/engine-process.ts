import { spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { cancellation } from '../../../errors/cancellation.ts';
import type { Logger } from '../../../ports/logger.ts';
import type { LoadSpec } from '../../driver.ts';
import type {
  CallContext,
  ChatGeneration,
  ChatRequest,
  EmbeddingRequest,
  EmbeddingResult,
  RerankRequest,
  RerankResult,
  TranscriptionRequest,
  TranscriptionResult,
} from '../../engine.ts';
import { createFrameChannel } from '../wire/frames.ts';
import { splitPrompt } from '../wire/long-texts.ts';
import {
  bytesOf,
  type CallBody,
  type CapabilityName,
  type FromEngine,
  floatsOf,
  fromWireError,
  packTexts,
  type ToEngine,
  type WireContext,
} from '../wire/messages.ts';
import { createChatStream, STREAM_CREDIT, type StreamSink } from './generation-stream.ts';
import { createHangMonitor } from './hang-monitor.ts';
import { forEachLine } from './output-lines.ts';

/** The process ended before it had answered. Not an answer for clients: the replica set retries or translates it. */
export class EngineCrash extends Error {
  override readonly name = 'EngineCrash';
  /** Whether the call may be what the process hung on; another process would hang on it, too. */
  readonly suspect: boolean;

  constructor(reason: string, { suspect = false } = {}) {
    super(reason);
    this.suspect = suspect;
  }
}

export interface EngineProcessOptions {
  spec: LoadSpec;
  /** The driver's module, which the process imports. */
  module: URL;
  /** Variables of the server; only harmless ones are handed on. */
  environment: Readonly<Record<string, string | undefined>>;
  loadTimeoutMs: number;
  hangTimeoutMs: number;
  logger: Logger;
}

/** Gives the piece of the request's own result buffer that an answer belongs to. */
export type VectorPlace = (dimensions: number) => Float32Array;

/** One engine process, seen from the server. */
export interface EngineProcess {
  readonly pid: number | undefined;
  /** Rejects when the model cannot be loaded; the process is gone then or going. */
  readonly ready: Promise<{ capabilities: readonly CapabilityName[]; loadMs: number }>;
  /** Resolves with the reason when the process is gone. */
  readonly exited: Promise<string>;
  inFlight(): number;
  /** As the process last reported it. */
  residentBytes(): number;
  embed(request: EmbeddingRequest, context: CallContext, place?: VectorPlace): Promise<EmbeddingResult>;
  rerank(request: RerankRequest, context: CallContext): Promise<RerankResult>;
  generate(request: ChatRequest, context: CallContext): ChatGeneration;
  transcribe(request: TranscriptionRequest, context: CallContext): Promise<TranscriptionResult>;
  countTokens(text: string): Promise<number>;
  /** Frees the model and ends the process; by force after `graceMs`. */
  close(graceMs: number): Promise<void>;
  kill(reason: string): void;
}

const ENTRY = fileURLToPath(new URL('../child/main.ts', import.meta.url));
/** Keys and tokens of the server's environment are none of an engine's business. */
const PASSED_ON = /^(PATH|HOME|LANG|LC_[A-Z]+|TZ|TMPDIR|LD_LIBRARY_PATH|CUDA_VISIBLE_DEVICES|SystemRoot)$/;
const MAX_HEARTBEAT_MS = 5_000;
/** What the process wrote just before it died may still be in the pipe. */
const LAST_WORDS_MS = 1_000;

interface Pending {
  onResult(value: unknown, body: Uint8Array): void;
  onError(error: Error): void;
  place?: ((value: unknown) => Uint8Array) | undefined;
  stream?: StreamSink;
  /** It went out when the process had been silent already, so it is not what the process hangs on. */
  sentIntoSilence?: boolean;
}

const NO_CONTEXT: CallContext = {
  requestId: '',
  accountId: '',
  keyId: '',
  priority: 'interactive',
  signal: new AbortController().signal,
};

export function startEngineProcess(options: EngineProcessOptions): EngineProcess {
  const { spec, logger } = options;
  const heartbeatMs = Math.min(MAX_HEARTBEAT_MS, Math.ceil(options.hangTimeoutMs / 4));
  const pending = new Map<number, Pending>();
  /** Cancelled calls that the engine has not acknowledged yet, with the age of the cancel in heartbeats. */
  const cancelled = new Map<number, number>();
  const ready = Promise.withResolvers<{ capabilities: readonly CapabilityName[]; loadMs: number }>();
  const exited = Promise.withResolvers<string>();
  ready.promise.catch(() => {});
  let lastId = 0;
  let residentBytes = 0;
  let killReason: string | undefined;
  let gone: string | undefined;
  let hung = false;

  const child = spawn(process.execPath, [ENTRY, String(process.pid)], {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    env: Object.fromEntries(Object.entries(options.environment).filter(([name]) => PASSED_ON.test(name))),
  });
  const fields = { model: `${spec.slug}@${spec.version}`, pid: child.pid };
  if (child.stdout !== null) forEachLine(child.stdout, (line) => logger.debug(fields, `engine: ${line}`));
  if (child.stderr !== null) forEachLine(child.stderr, (line) => logger.warn(fields, `engine: ${line}`));

  const pipe = child.stdio[3];
  if (!(pipe instanceof Socket)) {
    throw new Error('The engine process has no pipe');
  }
  const channel = createFrameChannel<ToEngine, FromEngine>(pipe, {
    placeBody: (message) => (message.type === 'result' ? pending.get(message.id)?.place?.(message.value) : undefined),
    onFrame: receive,
    onClose(error) {
      if (error !== undefined) logger.warn({ ...fields, err: error }, 'the pipe to an engine process broke');
      if (child.exitCode !== null || child.signalCode !== null) finish();
      else lastWords = setTimeout(() => kill('its pipe closed'), LAST_WORDS_MS);
    },
  });

  const monitor = createHangMonitor({
    heartbeatMs,
    hangTimeoutMs: options.hangTimeoutMs,
    busy: () => cancelled.size > 0 || pending.values().some((call) => call.stream?.blocked() !== true),
    onTick() {
      for (const [id, age] of cancelled) {
        cancelled.set(id, age + 1);
        if ((age + 1) * heartbeatMs >= options.hangTimeoutMs) kill('it did not stop a cancelled request');
      }
    },
    onHang() {
      hung = true;
      kill(`it made no progress for ${options.hangTimeoutMs / 1000} s`);
    },
  });
  const loadTimer = setTimeout(
    () => kill(`it did not load within ${options.loadTimeoutMs / 1000} s`),
    options.loadTimeoutMs,
  );
  let lastWords: NodeJS.Timeout | undefined;

  child.on('error', (error) => {
    logger.error({ ...fields, err: error }, 'an engine process could not be started');
    killReason ??= 'it could not be started';
    finish();
  });
  child.on('exit', () => {
    clearTimeout(lastWords);
    if (pipe.destroyed) finish();
    else lastWords = setTimeout(finish, LAST_WORDS_MS);
  });

  channel.write({ type: 'load', spec, module: options.module.href, heartbeatMs });

  function kill(reason: string): void {
    killReason ??= reason;
    child.kill('SIGKILL');
  }

  function finish(): void {
    if (gone !== undefined) return;
    const reason = killReason ?? describeExit(child.exitCode, child.signalCode);
    gone = reason;
    clearTimeout(loadTimer);
    clearTimeout(lastWords);
    monitor.stop();
    channel.close();
    ready.reject(new EngineCrash(reason));
    for (const call of pending.values()) {
      call.onError(new EngineCrash(reason, { suspect: hung && call.sentIntoSilence !== true }));
    }
    pending.clear();
    cancelled.clear();
    exited.resolve(reason);
  }

  function receive(message: FromEngine, body: Uint8Array): void {
    switch (message.type) {
      case 'ready':
        clearTimeout(loadTimer);
        ready.resolve({ capabilities: message.capabilities, loadMs: message.loadMs });
        return;
      case 'failed':
        ready.reject(fromWireError(message.error));
        kill('it could not load the model');
        return;
      case 'heartbeat':
        residentBytes = message.residentBytes;
        monitor.heartbeat(message.cpuMs);
        return;
      case 'event':
        monitor.progress();
        pending.get(message.id)?.stream?.onEvent(message.event, message.usage);
        return;
      default: {
        monitor.progress();
        const call = pending.get(message.id);
        pending.delete(message.id);
        cancelled.delete(message.id);
        if (message.type === 'result') call?.onResult(message.value, body);
        else if (message.type === 'end') call?.stream?.onEnd(message.usage);
        else if (call?.stream !== undefined) call.stream.onError(fromWireError(message.error), message.usage);
        else call?.onError(fromWireError(message.error));
      }
    }
  }

  /** Sends a call as soon as the pipe takes it, most often at once. The id is there only when the call really went out. */
  function send(...call: Parameters<typeof sendNow>): number | Promise<number> {
    return channel.isFull() ? channel.drained().then(() => sendNow(...call)) : sendNow(...call);
  }

  function sendNow(call: CallBody, context: CallContext, entry: Pending, payload?: Uint8Array): number {
    if (context.signal.aborted) throw cancellation(context.signal);
    if (gone !== undefined) throw new EngineCrash(gone);
    const { signal: _, ...wire } = context;
    const id = ++lastId;
    const message: ToEngine = { type: 'call', id, context: wire satisfies WireContext, call };
    if (pending.size + cancelled.size === 0) {
      monitor.progress();
      // An idle process starts at once; for a busy one calls gather.
      channel.write(message, payload);
    } else {
      channel.writeSoon(message, payload);
    }
    entry.sentIntoSilence = monitor.silent();
    pending.set(id, entry);
    return id;
  }

  function cancel(id: number): void {
    if (gone !== undefined) return;
    cancelled.set(id, 0);
    channel.write({ type: 'cancel', id });
  }

  async function request(
    call: CallBody,
    context: CallContext,
    extra: { payload?: Uint8Array; place?: Pending['place'] } = {},
  ): Promise<{ value: unknown; body: Uint8Array }> {
    const answer = Promise.withResolvers<{ value: unknown; body: Uint8Array }>();
    answer.promise.catch(() => {});
    const entry: Pending = {
      onResult: (value, body) => answer.resolve({ value, body }),
      onError: answer.reject,
      place: extra.place,
    };
    const sent = send(call, context, entry, extra.payload);
    const id = typeof sent === 'number' ? sent : await sent;
    const onAbort = () => {
      pending.delete(id);
      cancel(id);
      answer.reject(cancellation(context.signal));
    };
    context.signal.addEventListener('abort', onAbort);
    try {
      return await answer.promise;
    } finally {
      context.signal.removeEventListener('abort', onAbort);
    }
  }

  return {
    pid: child.pid,
    ready: ready.promise,
    exited: exited.promise,
    inFlight: () => pending.size + cancelled.size,
    residentBytes: () => residentBytes,

    async embed({ inputs, dimensions }, context, place) {
      const texts = inputs.every((input) => typeof input === 'string') ? packTexts(inputs) : undefined;
      const call: CallBody =
        texts === undefined
          ? { method: 'embed', inputs, byteLengths: [], dimensions }
          : { method: 'embed', inputs: null, byteLengths: texts.byteLengths, dimensions };
      const { value, body } = await request(call, context, {
        ...(texts === undefined ? {} : { payload: texts.body }),
        place: place && ((header) => bytesOf(place((header as EmbeddingResult).dimensions))),
      });
      return { ...(value as Omit<EmbeddingResult, 'vectors'>), vectors: floatsOf(body) };
    },

    async rerank({ query, documents }, context) {
      const { byteLengths, body: payload } = packTexts([query, ...documents]);
      const { value, body } = await request({ method: 'rerank', byteLengths }, context, { payload });
      return { ...(value as Omit<RerankResult, 'scores'>), scores: floatsOf(body) };
    },

    generate({ logitBias, ...rest }, context) {
      const bias = logitBias === undefined ? {} : { logitBias: [...logitBias] };
      return createChatStream(context, async (stream) => {
        const entry: Pending = { onResult: () => stream.onEnd(), onError: (error) => stream.onError(error), stream };
        const split = await splitPrompt(rest.prompt);
        const request = { ...rest, ...bias, prompt: split?.prompt ?? rest.prompt };
        const { longTexts = [], body } = split ?? {};
        const call: CallBody = { method: 'generate', request, longTexts, credit: STREAM_CREDIT };
        const id = await send(call, context, entry, body);
        return { cancel: () => cancel(id), credit: (count) => channel.write({ type: 'credit', id, count }) };
      });
    },

    async transcribe({ samples, ...rest }, context) {
      const { value } = await request({ method: 'transcribe', ...rest }, context, { payload: bytesOf(samples) });
      return value as TranscriptionResult;
    },

    async countTokens(text) {
      const { value } = await request({ method: 'countTokens', text }, NO_CONTEXT);
      return value as number;
    },

    async close(graceMs) {
      killReason ??= 'it was unloaded';
      channel.write({ type: 'close' });
      const timer = setTimeout(() => child.kill('SIGKILL'), graceMs);
      await exited.promise;
      clearTimeout(timer);
    },
    kill,
  };
}

function describeExit(code: number | null, signal: NodeJS.Signals | null): string {
  if (signal === 'SIGKILL') return 'it was killed from outside, perhaps because memory ran out';
  if (signal !== null) return `it crashed with ${signal}`;
  return `it exited with code ${code ?? 'unknown'}`;
}
