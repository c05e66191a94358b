import type { LookupFunction } from 'node:net';
import { Pool } from 'undici';
import type { HttpRequest } from './exchange.ts';

export interface StreamedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Returns the next bytes, or undefined at the end. */
  read(): Promise<Buffer | undefined>;
  /** Returns the whole body, or undefined if it is longer than `maxBytes`. */
  text(maxBytes: number): Promise<string | undefined>;
  /** Discards the rest so that the connection can be used again. */
  drain(): void;
  /** Closes the connection. */
  abort(): void;
}

export interface StreamClient {
  /** Resolves when the head of the answer has arrived. */
  stream(request: HttpRequest, signal: AbortSignal): Promise<StreamedAnswer>;
  close(): Promise<void>;
}

export interface StreamClientOptions {
  origin: string;
  connections: number;
  connectTimeoutMs: number;
  lookup?: LookupFunction | undefined;
}

/** For each stream; past it undici stops reading from the socket until the consumer catches up. */
const READ_AHEAD_BYTES = 16 * 1024;
const ignore = (): void => {};

/** Reads answers as they arrive, with back pressure. */
export function createStreamClient({
  origin,
  connections,
  connectTimeoutMs,
  lookup,
}: StreamClientOptions): StreamClient {
  const pool = new Pool(origin, {
    connections,
    pipelining: 1,
    allowH2: false,
    connect: { timeout: connectTimeoutMs, ...(lookup && { lookup }) },
    // Calls have their own timers. These would cut off long pauses inside an answer.
    headersTimeout: 0,
    bodyTimeout: 0,
  });

  return {
    async stream(request, signal) {
      const { statusCode, headers, body } = await pool.request({ ...request, signal, highWaterMark: READ_AHEAD_BYTES });
      body.on('error', ignore);
      const chunks: AsyncIterator<Buffer> = body.iterator({ destroyOnReturn: false });
      const read = async (): Promise<Buffer | undefined> => {
        const { done, value } = await chunks.next();
        return done === true ? undefined : value;
      };
      return {
        status: statusCode,
        headers,
        read,
        async text(maxBytes) {
          const parts: Buffer[] = [];
          let length = 0;
          for (let part = await read(); part !== undefined; part = await read()) {
            length += part.length;
            if (length > maxBytes) return undefined;
            parts.push(part);
          }
          return Buffer.concat(parts, length).toString('utf8');
        },
        drain() {
          body.dump().catch(ignore);
        },
        abort() {
          body.destroy();
        },
      };
    },
    close: () => pool.destroy(),
  };
}
