/**
 * The clients, in their own process. They share the cores with the servers, so they do as little as possible: one connection per
 * concurrent request, prepared request bytes, answers counted but not parsed.
 */
import { openConnection, postBytes } from '../raw-http.ts';

export interface ClientRequest {
  body: string;
  tokens: number;
}

export interface ClientOrder {
  address: string;
  apiKey?: string | undefined;
  requests: ClientRequest[];
  concurrency: number;
  seconds: number;
}

export type ClientResult = { tokens: number; requests: number; seconds: number } | { error: string };

async function work(order: ClientOrder): Promise<ClientResult> {
  const target = new URL('/v1/embeddings', order.address);
  const headers = { authorization: `Bearer ${order.apiKey}`, 'content-type': 'application/json' };
  const ready = order.requests.map(({ body, tokens }) => ({ bytes: postBytes(target, headers, body), tokens }));
  const began = performance.now();
  const endsAt = began + order.seconds * 1000;
  let next = 0;
  let tokens = 0;
  let requests = 0;
  await Promise.all(
    Array.from({ length: order.concurrency }, async () => {
      let answered = (): void => {};
      const socket = await openConnection(target, () => answered());
      await new Promise<void>((resolve, reject) => {
        let sent = 0;
        const send = () => {
          const { bytes, tokens: count } = ready[next++ % ready.length] as (typeof ready)[number];
          sent = count;
          socket.write(bytes);
        };
        answered = () => {
          tokens += sent;
          requests += 1;
          if (performance.now() < endsAt) send();
          else socket.end(resolve);
        };
        socket.on('error', reject);
        // No effect once the promise is resolved.
        socket.on('close', () => reject(new Error('the server closed a connection')));
        send();
      });
    }),
  );
  return { tokens, requests, seconds: (performance.now() - began) / 1000 };
}

process.on('message', async (order: ClientOrder) => {
  process.send?.(await work(order).catch((error: unknown): ClientResult => ({ error: String(error) })));
});
process.send?.('ready');
