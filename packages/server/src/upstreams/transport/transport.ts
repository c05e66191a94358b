import { type ConnectionPoolOptions, createConnectionPool, type HttpRequest } from './connection-pool.ts';
import { type Exchange, type ExchangeOptions, exchange } from './exchange.ts';
import { type RunningStream, stream } from './stream.ts';

/** HTTP/1.1 to one upstream, by our own client (decisions/2026-11-15-upstream-http.md). */
export interface Transport {
  /** Sends a request and reads the whole answer. */
  exchange(request: HttpRequest, options: ExchangeOptions): Exchange;
  /** Sends a request and reads the answer as it arrives. */
  stream(request: HttpRequest): RunningStream;
  close(): void;
}

export function createTransport(options: ConnectionPoolOptions): Transport {
  const pool = createConnectionPool(options);
  return {
    exchange: (request, limits) => exchange(pool, request, limits),
    stream: (request) => stream(pool, request),
    close: pool.close,
  };
}
