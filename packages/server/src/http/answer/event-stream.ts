import { once } from 'node:events';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type IdempotentRun, keptHeaders } from '../request/idempotent-run.ts';
import { addToAnswer, keepsText } from '../request/request-text.ts';
import { logFailure, noteFailure, toApiError } from './error-answer.ts';

/** An error in the middle of a stream, for endpoints that have no shape of their own. */
export const errorEvent = (error: ApiError): string => `data: ${JSON.stringify(error.toBody())}\n\n`;

export interface EventStream {
  /** Whether anything was sent. From then on, errors are sent as events. */
  readonly opened: boolean;
  /** Sends text that is already formatted as events. The promise resolves when a slow client has read enough. */
  write(text: string): void | Promise<void>;
  /** Stops the stream before anything was sent. */
  stop(): void;
  /** Sends an error event and ends, without `[DONE]`. `text`: the event in the shape of the endpoint. */
  fail(error: ApiError, text?: string): Promise<void>;
  /** Stores the answer for replays, then sends the last text. */
  end(text: string): Promise<void>;
}

/** A comment is sent after two of these without an event: a timer that begins anew with each event costs more. */
const QUIET_MS = 5_000;
const QUIET_TICKS = 2;
/** Text of one turn of the event loop that is written before the turn ends. */
const GATHERED_LENGTH = 16_384;
const KEEP_ALIVE = ': keep-alive\n\n';
const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  // Makes nginx pass every event on at once.
  'x-accel-buffering': 'no',
};

/**
 * Server-Sent Events on a reply. The head is sent with the first event, so that a failure before it is a plain answer; or with the
 * first keep-alive comment, if the request waits long in the queue or for its model to load.
 */
export const openEventStream = (reply: FastifyReply): EventStream => new ReplyEvents(reply);

/** Those that have gathered events in this turn. */
let gathering: ReplyEvents[] = [];

function writeGathered(): void {
  const written = gathering;
  gathering = [];
  for (const events of written) events.writeGathered();
}

/** A class: thousands may be open, and V8 makes an object with a getter a hash table. */
class ReplyEvents implements EventStream {
  opened = false;
  readonly #reply: FastifyReply;
  readonly #raw: FastifyReply['raw'];
  readonly #run: IdempotentRun | undefined;
  readonly #isKept: boolean;
  readonly #keepAlive: NodeJS.Timeout;
  #quietTicks = 0;
  #draining: Promise<void> | undefined;
  /** Written at the end of this turn: an upstream may send hundreds of events at once, and each write costs more than its event. */
  #gathered = '';

  constructor(reply: FastifyReply) {
    const { raw, request } = reply;
    this.#reply = reply;
    this.#raw = raw;
    this.#run = request.idempotentRun;
    this.#isKept = keepsText(request);
    this.#keepAlive = setInterval(() => this.#tick(), QUIET_MS);
    raw.on('close', () => this.stop());
  }

  write(text: string): void | Promise<void> {
    if (this.#raw.destroyed) throw errors.clientCancelled();
    this.#quietTicks = 0;
    this.#keep(text);
    if (this.opened) this.#gather(text);
    else this.#send(text);
    if (!this.#isFull) return;
    // Several choices may wait for the same client.
    this.#draining ??= this.#drained();
    return this.#draining;
  }

  stop(): void {
    clearInterval(this.#keepAlive);
  }

  async fail(error: ApiError, text = errorEvent(error)): Promise<void> {
    this.stop();
    try {
      await this.#run?.abandon(error.status);
    } finally {
      // Even when the store cannot be reached: the client would wait forever.
      if (!this.#raw.destroyed) this.#raw.end(this.#release() + text);
    }
  }

  async end(text: string): Promise<void> {
    this.stop();
    this.#open();
    this.#keep(text);
    await this.#run?.finish({ ...keptHeaders(this.#reply), ...STREAM_HEADERS });
    if (!this.#raw.destroyed) this.#raw.end(this.#release() + text);
  }

  #open(): void {
    if (this.opened) return;
    this.opened = true;
    this.#reply.hijack();
    this.#raw.writeHead(200, {
      ...(this.#reply.getHeaders() as Record<string, string>),
      ...STREAM_HEADERS,
    });
  }

  #gather(text: string): void {
    if (this.#gathered === '' && gathering.push(this) === 1) setImmediate(writeGathered);
    this.#gathered += text;
    if (this.#gathered.length >= GATHERED_LENGTH) this.writeGathered();
  }

  writeGathered(): void {
    if (this.#gathered !== '' && !this.#raw.destroyed) this.#writeChunk(this.#release());
  }

  /**
   * One piece for the socket. Node writes the size of a chunk, the chunk and two line ends one by one, which costs more than all else that is
   * done for an event.
   */
  #writeChunk(text: string): void {
    const { socket, chunkedEncoding } = this.#raw;
    // Without a socket, answers to earlier requests on its connection come first.
    if (socket === null || !chunkedEncoding) this.#raw.write(text);
    else socket.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`);
  }

  /** The client reads slowly. */
  get #isFull(): boolean {
    return this.#raw.writableNeedDrain || this.#raw.socket?.writableNeedDrain === true;
  }

  #release(): string {
    const text = this.#gathered;
    this.#gathered = '';
    return text;
  }

  #send(text: string): void {
    const raw = this.#raw;
    this.#open();
    // Node keeps the head until the answer ends, as a tree of its pieces unless it was written by itself.
    raw.socket?.cork();
    raw.flushHeaders();
    raw.write(text);
    raw.socket?.uncork();
  }

  #keep(text: string): void {
    this.#run?.take(text);
    if (this.#isKept) addToAnswer(this.#reply.request, STREAM_HEADERS['content-type'], text);
  }

  #tick(): void {
    this.#quietTicks += 1;
    if (this.#quietTicks < QUIET_TICKS || this.#raw.destroyed || this.#isFull) return;
    this.#quietTicks = 0;
    if (this.opened) this.#writeChunk(KEEP_ALIVE);
    else this.#send(KEEP_ALIVE);
  }

  async #drained(): Promise<void> {
    const raw = this.#raw;
    const { socket } = raw;
    const closed = new AbortController();
    const onClose = () => closed.abort();
    raw.once('close', onClose);
    try {
      await once(socket?.writableNeedDrain ? socket : raw, 'drain', { signal: closed.signal });
    } catch {
      throw errors.clientCancelled();
    } finally {
      raw.off('close', onClose);
      this.#draining = undefined;
    }
  }
}

/** What a handler returns when its reply was sent already. The type fits every schema: there is nothing left to check. */
const sent = (reply: FastifyReply): never => reply as never;

/** Sends a body that is not JSON of the route's schema. */
export const sendBody = (reply: FastifyReply, body: unknown): never => sent(reply.send(body));

/**
 * Streams an answer: `produce` writes its events and returns the last text. An error before the first event is a plain answer,
 * after it an error event, which `failureText` writes where the endpoint has a shape of its own.
 */
export async function streamedAnswer(
  request: FastifyRequest,
  reply: FastifyReply,
  produce: (events: EventStream) => Promise<string>,
  failureText?: (failure: ApiError) => string,
): Promise<never> {
  const events = openEventStream(reply);
  try {
    await events.end(await produce(events));
  } catch (error) {
    if (!events.opened) {
      events.stop();
      throw error;
    }
    const failure = toApiError(error, request);
    noteFailure(request, failure);
    logFailure(request, failure, 'a stream failed, sent an error event');
    try {
      await events.fail(failure, failureText?.(failure));
    } catch (cause) {
      logFailure(request, toApiError(cause, request), 'failed to release the idempotency key of a failed stream');
    }
  }
  return sent(reply);
}
