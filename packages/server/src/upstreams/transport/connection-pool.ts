import { createHeadParser } from './answer-head.ts';
import { Connection, type ConnectionOptions, type Receiver } from './connection.ts';

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

export type ConnectionPoolOptions = Pick<
  ConnectionOptions,
  'origin' | 'connectTimeoutMs' | 'lookup' | 'allowLinkLocal'
>;

interface IdleConnection {
  connection: Connection;
  since: number;
  /** How long the other side keeps it, if it says so. */
  keepMs: number | undefined;
}

const SWEEP_MS = 4_000;
/** Closing a thousand at once would block the event loop for ten milliseconds and more. */
const CLOSED_AT_ONCE = 50;

export function createConnectionPool({
  origin,
  connectTimeoutMs,
  lookup,
  allowLinkLocal,
}: ConnectionPoolOptions): ConnectionPool {
  /** With the time for which each was idle before its last request. */
  const all = new Map<Connection, number>();
  /** The most recently used connection is last. */
  const idle: IdleConnection[] = [];
  const keepTime = new KeepTime();
  let sweeper: NodeJS.Timeout | undefined;
  let isClosed = false;
  const host = `host: ${origin.host}\r\nconnection: keep-alive\r\n`;

  const connectionOptions: ConnectionOptions = {
    origin,
    connectTimeoutMs,
    lookup,
    allowLinkLocal,
    parseHead: createHeadParser(),
    onIdle(connection, keepMs) {
      idle.push({ connection, since: performance.now(), keepMs });
      sweeper ??= setTimeout(sweep, SWEEP_MS).unref();
    },
    onGone(connection, isUnanswered) {
      const now = performance.now();
      const idleMs = all.get(connection) ?? 0;
      all.delete(connection);
      const index = idle.findIndex((each) => each.connection === connection);
      const [closed] = index === -1 ? [] : idle.splice(index, 1);
      if (closed !== undefined) keepTime.learn(now - closed.since, now);
      // Used just when it was closed. A new connection that breaks tells nothing.
      else if (isUnanswered && idleMs > 0) keepTime.learn(idleMs, now);
    },
  };

  const isFresh = ({ since, keepMs = Infinity }: IdleConnection, now: number): boolean =>
    now < since + Math.min(keepMs, keepTime.longestMs(now));

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
    const now = performance.now();
    if (last !== undefined && isFresh(last, now)) {
      idle.pop();
      all.set(last.connection, now - last.since);
      return last.connection;
    }
    const opened = new Connection(connectionOptions);
    all.set(opened, 0);
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
      for (const connection of [...all.keys()]) connection.destroy(new Error('the client is closed'));
    },
  };
}

const LONGEST_MS = 30_000;
/**
 * Python servers close idle connections after 2 or 5 seconds without saying so, and a connection that closes just when it is used costs
 * a retry. Once the other side has closed an idle connection, none is kept for longer than this.
 */
const CAUTIOUS_MS = 4_000;
/** We close this much earlier than the other side. */
const MARGIN_MS = 1_000;
const SHORTEST_MS = 500;
/** A server that restarts closes all connections, whatever their age. What was learnt from it is forgotten after this time. */
const REMEMBERED_MS = 300_000;

/** How long idle connections to one server are kept. Learns from those that the server closes. */
export class KeepTime {
  #longestMs = LONGEST_MS;
  #shortMs = LONGEST_MS;
  #shortUntil = 0;

  longestMs(now: number): number {
    return now < this.#shortUntil ? this.#shortMs : this.#longestMs;
  }

  /** The server has closed a connection after it was idle for this time. */
  learn(idleMs: number, now: number): void {
    const before = this.longestMs(now);
    this.#longestMs = CAUTIOUS_MS;
    // No known server closes connections so soon: it restarts.
    if (idleMs < MARGIN_MS) return;
    this.#shortMs = Math.min(before, Math.max(SHORTEST_MS, idleMs - MARGIN_MS), CAUTIOUS_MS);
    this.#shortUntil = now + REMEMBERED_MS;
  }
}
