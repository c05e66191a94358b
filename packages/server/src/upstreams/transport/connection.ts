import { connect as connectTcp, isIP, type LookupFunction, Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { AnswerHead } from './answer-head.ts';
import { AnswerParser, type AnswerSink } from './answer-parser.ts';
import { isLinkLocal, LinkLocalError, withoutLinkLocal } from './link-local.ts';

export interface ConnectionOptions {
  origin: URL;
  connectTimeoutMs: number;
  lookup?: LookupFunction | undefined;
  /** It may be at an address such as that of a cloud's metadata service. */
  allowLinkLocal?: boolean | undefined;
  parseHead(text: string): AnswerHead;
  /** An answer is complete, and the connection can be used again within `keepMs`, if the other side says how long. */
  onIdle(connection: Connection, keepMs: number | undefined): void;
  /** The connection is closed. Called once. `isUnanswered`: by the other side, which has sent nothing since the last request. */
  onGone(connection: Connection, isUnanswered: boolean): void;
}

/** Receives the answer of one request, or its failure. */
export interface Receiver extends AnswerSink {
  onFailure(error: Error): void;
}

/** Bodies up to this length are written together with the head. */
const SMALL_BODY_LENGTH = 16_384;
const TCP_KEEP_ALIVE_MS = 60_000;
/** Shared by all connections: bytes are consumed before the next read. */
const buffer = Buffer.alloc(65_536);

const coded = (message: string, code: string): Error => Object.assign(new Error(message), { code });

/** One kept-alive connection, for one request at a time. A class, as its parser: with closures it would be several times as large. */
export class Connection implements AnswerSink {
  readonly #options: ConnectionOptions;
  readonly #parser: AnswerParser;
  readonly #socket: Socket;
  #connecting: NodeJS.Timeout | undefined;
  #receiver: Receiver | undefined;
  #keepMs: number | undefined;
  #isUnanswered = false;
  #isGone = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#parser = new AnswerParser(this, options.parseHead);
    this.#socket = openSocket(options, (length) => this.#read(length));
    this.#connecting = setTimeout(
      () => this.destroy(coded(`no connection within ${options.connectTimeoutMs} ms`, 'ETIMEDOUT')),
      options.connectTimeoutMs,
    );
    this.#socket.once(isSecure(options) ? 'secureConnect' : 'connect', () => this.#connected());
    this.#socket.on('error', (error) => this.#drop(error, this.#isUnanswered));
    this.#socket.on('end', () => {
      // This ends some answers. A request that is still being sent can no longer be read.
      this.#parser.end();
      this.#closed();
    });
    this.#socket.on('close', () => this.#closed());
  }

  send(head: string, body: string | Buffer, receiver: Receiver): void {
    this.#receiver = receiver;
    this.#isUnanswered = true;
    this.#parser.expect();
    if (typeof body === 'string' && body.length <= SMALL_BODY_LENGTH) {
      this.#socket.write(head + body);
      return;
    }
    this.#socket.cork();
    this.#socket.write(head);
    this.#socket.write(body);
    this.#socket.uncork();
  }

  /** Stops reading, so that the other side waits. What has been read already still arrives. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Fails the running request, if there is one. */
  destroy(reason: Error): void {
    this.#drop(reason, false);
  }

  #drop(reason: Error, isUnanswered: boolean): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#connected();
    this.#socket.destroy();
    this.#options.onGone(this, isUnanswered);
    const failed = this.#receiver;
    this.#receiver = undefined;
    failed?.onFailure(reason);
  }

  onHead(head: AnswerHead): void {
    this.#keepMs = head.keepMs;
    this.#receiver?.onHead(head);
  }

  onBody(bytes: Buffer, from: number, to: number): void {
    this.#receiver?.onBody(bytes, from, to);
  }

  onEnd(): void {
    const ended = this.#receiver;
    this.#receiver = undefined;
    ended?.onEnd();
  }

  #connected(): void {
    clearTimeout(this.#connecting);
    this.#connecting = undefined;
  }

  #closed(): void {
    this.#drop(coded('the other side closed the connection', 'ECONNRESET'), this.#isUnanswered);
  }

  #read(length: number): void {
    const isBusy = this.#receiver !== undefined;
    this.#isUnanswered = false;
    let hasRest: boolean;
    try {
      hasRest = this.#parser.push(buffer, length);
    } catch (error) {
      this.destroy(error as Error);
      return;
    }
    if (this.#receiver !== undefined || this.#isGone) return;
    // Extra bytes must not be read as the next answer, and a request that was answered early may still be on its way out.
    const isClean = isBusy && !hasRest && this.#socket.writableLength === 0;
    if (isClean && this.#keepMs !== 0) this.#options.onIdle(this, this.#keepMs);
    else this.destroy(new Error('the connection cannot be used again'));
  }
}

const isSecure = ({ origin }: ConnectionOptions): boolean => origin.protocol === 'https:';

function openSocket(options: ConnectionOptions, read: (length: number) => void): Socket {
  const { origin, allowLinkLocal = false } = options;
  const host = origin.hostname.replace(/^\[|\]$/g, '');
  if (!allowLinkLocal && isLinkLocal(host)) return new Socket().destroy(new LinkLocalError(host));
  const lookup = allowLinkLocal ? options.lookup : withoutLinkLocal(options.lookup);
  const target = {
    host,
    port: Number(origin.port || (isSecure(options) ? 443 : 80)),
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
    ...(lookup && { lookup }),
    onread: {
      buffer,
      callback(length: number) {
        read(length);
        return true;
      },
    },
  };
  return isSecure(options)
    ? connectTls({ ...target, ...(isIP(host) === 0 && { servername: host }), ALPNProtocols: ['http/1.1'] })
    : connectTcp(target);
}
