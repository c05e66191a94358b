import { type AnswerHead, parseHead } from './answer-head.ts';
import { type AnswerText, createAnswerText } from './answer-text.ts';
import { type Connection, type ConnectionOptions, openConnection } from './connection.ts';

export interface ExchangeRequest {
  method: 'GET' | 'POST';
  path: string;
  /** Names and values without line breaks. */
  headers: Readonly<Record<string, string>>;
  body: string | Buffer;
}

export interface WholeAnswer {
  status: number;
  headers: AnswerHead['headers'];
  text: string;
}

export interface Exchange {
  /** Rejects with what the connection or `abort` said. */
  readonly answer: Promise<WholeAnswer>;
  abort(reason: Error): void;
}

export interface ExchangeOptions {
  /** The head of the answer is there. */
  onBegun(): void;
  /** Of an answer with this status; a longer one is given up, and `tooLong` says why. */
  maxBytes(status: number): number;
  tooLong(maxBytes: number): Error;
}

export interface Exchanges {
  /** One request and its whole answer. As many run at a time as are asked for: the caller knows what the other side bears. */
  begin(request: ExchangeRequest, options: ExchangeOptions): Exchange;
  close(): void;
}

const SWEEP_MS = 4_000;

/**
 * HTTP/1.1 with kept-alive connections, for answers that are wanted whole. Undici does far more, and for small requests that took
 * a fifth of the gateway's processor time: decisions/2026-11-15-upstream-http.md.
 */
export function createExchanges({ origin, connectTimeoutMs }: { origin: URL; connectTimeoutMs: number }): Exchanges {
  const all = new Set<Connection>();
  /** The one used last is at the end. */
  const idle: { connection: Connection; until: number }[] = [];
  let sweeper: NodeJS.Timeout | undefined;
  let isClosed = false;
  const host = `host: ${origin.host}\r\nconnection: keep-alive\r\n`;

  const connectionOptions: ConnectionOptions = {
    origin,
    connectTimeoutMs,
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
    for (const { connection, until } of [...idle]) if (until <= now) connection.destroy(new Error('it was idle'));
    sweeper = idle.length === 0 ? undefined : setTimeout(sweep, SWEEP_MS).unref();
  }

  /** The one that was used last is the least likely to be closed. */
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
    begin({ method, path, headers, body }, { onBegun, maxBytes, tooLong }) {
      if (isClosed) throw new Error('the upstream is no longer used');
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
          onBegun();
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
      for (const connection of [...all]) connection.destroy(new Error('the upstream is no longer used'));
    },
  };
}

/** Engines answer with the very same head many times in a second. */
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
