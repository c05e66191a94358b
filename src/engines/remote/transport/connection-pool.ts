import { type AnswerHead, parseHead } from './answer-head.ts';
import { type Connection, type ConnectionOptions, openConnection, type Receiver } from './connection.ts';

export interface HttpRequest {
  method: 'GET' | 'POST';
  path: string;
  /** Names and values must not contain line breaks. */
  headers: Readonly<Record<string, string>>;
  body?: string | Buffer;
}

/** Kept-alive connections to one server. Does not limit how many requests run at once: the router does. */
export interface ConnectionPool {
  /** Sends a request on an idle connection or a new one, which belongs to the request until its answer has ended. */
  send(request: HttpRequest, receiver: Receiver): Connection;
  close(): void;
}

export type ConnectionPoolOptions = Pick<ConnectionOptions, 'origin' | 'connectTimeoutMs' | 'lookup'>;

interface IdleConnection {
  connection: Connection;
  since: number;
  /** How long the other side keeps it, if it says so. */
  keepMs: number | undefined;
}

const LONGEST_KEEP_MS = 30_000;
/**
 * Python servers close idle connections after 5 seconds without saying so, and a connection that closes just when it is used costs a
 * retry. Once the other side has closed an idle connection, none is kept for longer than this.
 */
const CAUTIOUS_KEEP_MS = 4_000;
const SWEEP_MS = 4_000;
/** Closing a thousand at once would block the event loop for ten milliseconds and more. */
const CLOSED_AT_ONCE = 50;

export function createConnectionPool({ origin, connectTimeoutMs, lookup }: ConnectionPoolOptions): ConnectionPool {
  const all = new Set<Connection>();
  /** The most recently used connection is last. */
  const idle: IdleConnection[] = [];
  let longestKeepMs = LONGEST_KEEP_MS;
  let sweeper: NodeJS.Timeout | undefined;
  let isClosed = false;
  const host = `host: ${origin.host}\r\nconnection: keep-alive\r\n`;

  const connectionOptions: ConnectionOptions = {
    origin,
    connectTimeoutMs,
    lookup,
    parseHead: createHeadParser(),
    onIdle(connection, keepMs) {
      idle.push({ connection, since: performance.now(), keepMs });
      sweeper ??= setTimeout(sweep, SWEEP_MS).unref();
    },
    onGone(connection) {
      all.delete(connection);
      const place = idle.findIndex((each) => each.connection === connection);
      if (place === -1) return;
      idle.splice(place, 1);
      longestKeepMs = CAUTIOUS_KEEP_MS;
    },
  };

  const isFresh = ({ since, keepMs = longestKeepMs }: IdleConnection, now: number): boolean =>
    now < since + Math.min(keepMs, longestKeepMs);

  function sweep(): void {
    const now = performance.now();
    const expired = idle.filter((each) => !isFresh(each, now)).slice(0, CLOSED_AT_ONCE);
    for (const each of expired) {
      idle.splice(idle.indexOf(each), 1);
      each.connection.destroy(new Error('the connection was idle'));
    }
    if (expired.length === CLOSED_AT_ONCE) setImmediate(sweep);
    else sweeper = idle.length === 0 ? undefined : setTimeout(sweep, SWEEP_MS).unref();
  }

  /** The most recently used connection is the least likely to be closed. */
  function take(): Connection {
    const last = idle.at(-1);
    if (last !== undefined && isFresh(last, performance.now())) {
      idle.pop();
      return last.connection;
    }
    const opened = openConnection(connectionOptions);
    all.add(opened);
    return opened;
  }

  return {
    send({ method, path, headers, body = '' }, receiver) {
      if (isClosed) throw new Error('the client is closed');
      const connection = take();
      let lines = `${method} ${path} HTTP/1.1\r\n${host}`;
      for (const name in headers) lines += `${name}: ${headers[name]}\r\n`;
      if (method === 'POST') lines += `content-length: ${Buffer.byteLength(body)}\r\n`;
      connection.send(`${lines}\r\n`, body, receiver);
      return connection;
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
