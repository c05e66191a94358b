import { once } from 'node:events';
import type { FastifyReply } from 'fastify';
import type { ApiError } from '../../errors/api-error.ts';
import { errors } from '../../errors/errors.ts';
import { keptHeaders } from '../request/idempotent-run.ts';
import { addToAnswer, keepsText } from '../request/request-text.ts';

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

const KEEP_ALIVE_MS = 10_000;
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
export function openEventStream(reply: FastifyReply): EventStream {
  const { request } = reply;
  const { idempotentRun: run } = request;
  const isKept = keepsText(request);
  const { raw } = reply;
  let opened = false;
  let draining: Promise<void> | undefined;

  function open(): void {
    if (opened) return;
    opened = true;
    reply.hijack();
    reply.raw.writeHead(200, {
      ...(reply.getHeaders() as Record<string, string>),
      ...STREAM_HEADERS,
    });
  }

  const keepAlive = setInterval(() => {
    if (raw.destroyed || raw.writableNeedDrain) return;
    open();
    raw.write(': keep-alive\n\n');
  }, KEEP_ALIVE_MS);
  const stop = () => clearInterval(keepAlive);
  raw.once('close', stop);

  async function drained(): Promise<void> {
    const closed = new AbortController();
    const onClose = () => closed.abort();
    raw.once('close', onClose);
    try {
      await once(raw, 'drain', { signal: closed.signal });
    } catch {
      throw errors.clientCancelled();
    } finally {
      raw.off('close', onClose);
      draining = undefined;
    }
  }

  return {
    get opened() {
      return opened;
    },
    write(text) {
      if (raw.destroyed) throw errors.clientCancelled();
      open();
      keepAlive.refresh();
      run?.take(text);
      if (isKept) addToAnswer(request, STREAM_HEADERS['content-type'], text);
      if (raw.write(text)) return;
      // Several choices may wait for the same client.
      draining ??= drained();
      return draining;
    },
    stop,
    async fail(error, text = `data: ${JSON.stringify(error.toBody())}\n\n`) {
      stop();
      await run?.abandon(error.status);
      if (!raw.destroyed) raw.end(text);
    },
    async end(text) {
      stop();
      open();
      run?.take(text);
      if (isKept) addToAnswer(request, STREAM_HEADERS['content-type'], text);
      await run?.finish({ ...keptHeaders(reply), ...STREAM_HEADERS });
      if (!raw.destroyed) raw.end(text);
    },
  };
}
