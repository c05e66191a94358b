/**
 * The clients, in a process of their own and as cheap as they can be: one connection for each request at a time, requests as bytes
 * made beforehand, answers counted and not read. What they cost is taken from the servers on the same cores.
 */
import { connect, type Socket } from 'node:net';

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

const HEAD_END = Buffer.from('\r\n\r\n');

function toBytes({ body }: ClientRequest, { apiKey, address }: ClientOrder): Buffer {
  return Buffer.from(
    `POST /v1/embeddings HTTP/1.1\r\nhost: ${new URL(address).host}\r\nauthorization: Bearer ${apiKey}\r\n` +
      `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

/** Calls back once for each answer of status 200 that is there to its last byte. */
function readAnswers(socket: Socket, onAnswer: () => void): void {
  let head: Buffer | undefined;
  let missing = 0;
  socket.on('data', (chunk: Buffer) => {
    if (missing === 0) {
      head = head === undefined ? chunk : Buffer.concat([head, chunk]);
      const end = head.indexOf(HEAD_END);
      if (end < 0) return;
      const text = head.toString('latin1', 0, end);
      const bodyBytes = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? Number.NaN);
      if (!text.startsWith('HTTP/1.1 200') || Number.isNaN(bodyBytes)) {
        socket.destroy(new Error(`unexpected answer: ${text}`));
        return;
      }
      missing = end + HEAD_END.length + bodyBytes - head.length;
      head = undefined;
    } else {
      missing -= chunk.length;
    }
    if (missing === 0) onAnswer();
  });
}

async function work(order: ClientOrder): Promise<ClientResult> {
  const ready = order.requests.map((request) => ({ bytes: toBytes(request, order), tokens: request.tokens }));
  const { hostname, port } = new URL(order.address);
  const began = performance.now();
  const endsAt = began + order.seconds * 1000;
  let next = 0;
  let tokens = 0;
  let requests = 0;
  await Promise.all(
    Array.from({ length: order.concurrency }, async () => {
      const socket = connect(Number(port), hostname);
      socket.setNoDelay(true);
      await new Promise<void>((resolve, reject) => {
        let sent = 0;
        const send = () => {
          const { bytes, tokens: count } = ready[next++ % ready.length] as (typeof ready)[number];
          sent = count;
          socket.write(bytes);
        };
        readAnswers(socket, () => {
          tokens += sent;
          requests += 1;
          if (performance.now() < endsAt) send();
          else socket.end(resolve);
        });
        socket.on('error', reject);
        // Of no effect after a proper end.
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
