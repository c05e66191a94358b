import { type AnswerHead, parseHead } from './answer-head.ts';
import { type AnswerText, createAnswerText } from './answer-text.ts';
import { type Connection, type ConnectionOptions, openConnection } from './connection.ts';

export interface HttpRequest {
  method: 'GET' | 'POST';
  path: string;
  /** Names and values must not contain line breaks. */
  headers: Readonly<Record<string, string>>;
  body?: string | Buffer;
}

export interface WholeAnswer {
  status: number;
  headers: AnswerHead['headers'];
  text: string;
}

export interface Exchange {
  /** Rejects with the connection's error or the reason of `abort`. */
  readonly answer: Promise<WholeAnswer>;
  abort(reason: Error): void;
}

export interface ExchangeOptions {
  /** Called when the head of the answer has arrived. */
  onHead?(): void;
  /** Limit for an answer with this status. A longer one is aborted with the error from `tooLong`. */
  maxBytes(status: number): number;
  tooLong(maxBytes: number): Error;
}

export interface ExchangeClient {
  /** Sends one request and reads its whole answer. Does not limit how many run at once: the router does. */
  send(request: HttpRequest, options: ExchangeOptions): Exchange;
  close(): void;
}

const SWEEP_MS = 4_000;

/**
 * HTTP/1.1 over kept-alive connections, for answers that are read whole. With undici, small requests cost about a fifth more of the
 * gateway's processor time: decisions/2026-11-15-upstream-http.md.
 */
export function createExchangeClient({
  origin,
  connectTimeoutMs,
  lookup,
}: Pick<ConnectionOptions, 'origin' | 'connectTimeoutMs' | 'lookup'>): ExchangeClient {
  const all = new Set<Connection>();
  /** The most recently used connection is last. */
  const idle: { connection: Connection; until: number }[] = [];
  let sweeper: NodeJS.Timeout | undefined;
  let isClosed = false;
  const host = `host: ${origin.host}\r\nconnection: keep-alive\r\n`;

  const connectionOptions: ConnectionOptions = {
    origin,
    connectTimeoutMs,
    lookup,
    parseHead: createHeadParser(),
    onIdle(connection, keepMs) {
      idle.push({ connection, until: performance.now() + keepMs });
      sweeper ??= setTimeout(sweep, SWEEP_MS).unref();
    },
    onGone(connection) {
      all.delete(connection);
      const place = idle.findIndex((each) => each.connection === connection);
      if (place !== -1) idle.splice(place, 1);
    },
  };

  function sweep(): void {
    const now = performance.now();
    for (const { connection, until } of [...idle])
      if (until <= now) connection.destroy(new Error('the connection was idle'));
    sweeper = idle.length === 0 ? undefined : setTimeout(sweep, SWEEP_MS).unref();
  }

  /** The most recently used connection is the least likely to be closed. */
  function take(): Connection {
    const last = idle.at(-1);
    if (last !== undefined && last.until > performance.now()) {
      idle.pop();
      return last.connection;
    }
    const opened = openConnection(connectionOptions);
    all.add(opened);
    return opened;
  }

  return {
    send({ method, path, headers, body = '' }, { onHead, maxBytes, tooLong }) {
      if (isClosed) throw new Error('the client is closed');
      const { promise: answer, resolve, reject } = Promise.withResolvers<WholeAnswer>();
      const connection = take();
      let head: AnswerHead | undefined;
      let text: AnswerText | undefined;
      let isOver = false;

      function abort(reason: Error): void {
        if (!isOver) connection.destroy(reason);
      }
      let lines = `${method} ${path} HTTP/1.1\r\n${host}`;
      for (const name in headers) lines += `${name}: ${headers[name]}\r\n`;
      connection.send(`${lines}content-length: ${Buffer.byteLength(body)}\r\n\r\n`, body, {
        onHead(arrived) {
          head = arrived;
          text = createAnswerText(arrived, maxBytes(arrived.status));
          onHead?.();
        },
        onBody(bytes) {
          if (text?.add(bytes) === false) abort(tooLong(text.maxBytes));
        },
        onEnd() {
          isOver = true;
          if (head !== undefined && text !== undefined)
            resolve({ status: head.status, headers: head.headers, text: text.whole() });
        },
        onFailure(error) {
          isOver = true;
          reject(error);
        },
      });
      return { answer, abort };
    },
    close() {
      isClosed = true;
      clearTimeout(sweeper);
      for (const connection of [...all]) connection.destroy(new Error('the client is closed'));
    },
  };
}

/** Engines send the same head many times a second: the last one is remembered. */
function createHeadParser(): (text: string) => AnswerHead {
  let lastText = '';
  let lastHead: AnswerHead | undefined;
  return (text) => {
    if (lastHead === undefined || text !== lastText) {
      lastHead = parseHead(text);
      lastText = text;
    }
    return lastHead;
  };
}
