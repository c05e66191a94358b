import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { AnswerHead } from './answer-head.ts';
import { type AnswerSink, createAnswerParser } from './answer-parser.ts';

export interface ConnectionOptions {
  origin: URL;
  connectTimeoutMs: number;
  lookup?: LookupFunction | undefined;
  parseHead(text: string): AnswerHead;
  /** An answer is complete, and the connection can be used again within `keepMs`. */
  onIdle(connection: Connection, keepMs: number): void;
  /** The connection is closed. Called once. */
  onGone(connection: Connection): void;
}

/** Receives the answer of one request, or its failure. */
export interface Receiver extends AnswerSink {
  onFailure(error: Error): void;
}

/** One kept-alive connection, for one request at a time. */
export interface Connection {
  send(head: string, body: string | Buffer, receiver: Receiver): void;
  /** Stops reading, so that the other side waits. What has been read already still arrives. */
  pause(): void;
  resume(): void;
  /** Fails the running request, if there is one. */
  destroy(reason: Error): void;
}

/** Bodies up to this length are written together with the head. */
const SMALL_BODY_LENGTH = 16_384;
const TCP_KEEP_ALIVE_MS = 60_000;
/** Shared by all connections: bytes are consumed before the next read. */
const buffer = Buffer.alloc(65_536);

const coded = (message: string, code: string): Error => Object.assign(new Error(message), { code });

export function openConnection(options: ConnectionOptions): Connection {
  const { origin, connectTimeoutMs, parseHead, onIdle, onGone } = options;
  let receiver: Receiver | undefined;
  let keepMs = 0;
  let isGone = false;

  const parser = createAnswerParser(
    {
      onHead(head) {
        ({ keepMs } = head);
        receiver?.onHead(head);
      },
      onBody: (bytes) => receiver?.onBody(bytes),
      onEnd() {
        const ended = receiver;
        receiver = undefined;
        ended?.onEnd();
      },
    },
    parseHead,
  );

  const connection: Connection = {
    send(head, body, to) {
      receiver = to;
      parser.expect();
      if (typeof body === 'string' && body.length <= SMALL_BODY_LENGTH) {
        socket.write(head + body);
        return;
      }
      socket.cork();
      socket.write(head);
      socket.write(body);
      socket.uncork();
    },
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    destroy(reason) {
      if (isGone) return;
      isGone = true;
      clearTimeout(connecting);
      socket.destroy();
      onGone(connection);
      const failed = receiver;
      receiver = undefined;
      failed?.onFailure(reason);
    },
  };

  function read(bytes: Buffer): void {
    const isBusy = receiver !== undefined;
    let hasRest: boolean;
    try {
      hasRest = parser.push(bytes);
    } catch (error) {
      connection.destroy(error as Error);
      return;
    }
    if (receiver !== undefined || isGone) return;
    // Extra bytes must not be read as the next answer, and a request that was answered early may still be on its way out.
    const isClean = isBusy && !hasRest && socket.writableLength === 0;
    if (isClean && keepMs > 0) onIdle(connection, keepMs);
    else connection.destroy(new Error('the connection cannot be used again'));
  }

  const isSecure = origin.protocol === 'https:';
  const host = origin.hostname.replace(/^\[|\]$/g, '');
  const target = {
    host,
    port: Number(origin.port || (isSecure ? 443 : 80)),
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
    ...(options.lookup && { lookup: options.lookup }),
    onread: {
      buffer,
      callback(length: number) {
        read(buffer.subarray(0, length));
        return true;
      },
    },
  };
  const socket: Socket = isSecure
    ? connectTls({ ...target, ...(isIP(host) === 0 && { servername: host }), ALPNProtocols: ['http/1.1'] })
    : connectTcp(target);
  const connecting = setTimeout(
    () => connection.destroy(coded(`no connection within ${connectTimeoutMs} ms`, 'ETIMEDOUT')),
    connectTimeoutMs,
  );
  socket.once(isSecure ? 'secureConnect' : 'connect', () => clearTimeout(connecting));
  socket.on('error', (error) => connection.destroy(error));
  const closed = () => connection.destroy(coded('the other side closed the connection', 'ECONNRESET'));
  socket.on('end', () => {
    // This ends some answers. A request that is still being sent can no longer be read.
    parser.end();
    closed();
  });
  socket.on('close', closed);
  return connection;
}
