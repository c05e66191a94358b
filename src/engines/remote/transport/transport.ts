import type { LookupFunction } from 'node:net';
import { createExchangeClient, type ExchangeClient } from './exchange.ts';
import { createStreamClient, type StreamClient } from './stream-client.ts';

/**
 * HTTP to one upstream. Whole answers and streams use different clients (decisions/2026-11-15-upstream-http.md); nothing outside this
 * folder knows which.
 */
export interface Transport {
  /** Sends a request and reads the whole answer. */
  exchange: ExchangeClient['send'];
  /** Sends a request and reads the answer as it arrives. */
  stream: StreamClient['stream'];
  close(): Promise<void>;
}

export interface TransportOptions {
  origin: URL;
  maxStreams: number;
  connectTimeoutMs: number;
  /** Finds the address of the host; the system's by default. */
  lookup?: LookupFunction | undefined;
}

export function createTransport({ origin, maxStreams, connectTimeoutMs, lookup }: TransportOptions): Transport {
  const exchanges = createExchangeClient({ origin, connectTimeoutMs, lookup });
  const streams = createStreamClient({ origin: origin.origin, connections: maxStreams, connectTimeoutMs, lookup });
  return {
    exchange: exchanges.send,
    stream: streams.stream,
    close() {
      exchanges.close();
      return streams.close();
    },
  };
}
