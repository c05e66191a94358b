import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { messageBytes } from './message-bytes.ts';

export interface PacedLoad {
  url: string;
  headers: Record<string, string>;
  body: string;
  perSecond: number;
  seconds: number;
}

/** As many as at full load. Requests beyond them wait here, and that counts. */
const CONNECTIONS = 32;
/** More requests under way mean that the server does not keep up. */
const MAX_UNDER_WAY = 1_000;
/** While the connections are new nothing is counted. */
const WARM_UP_SECONDS = 1;
/** More than any head here. */
const HEAD_BYTES = 2_048;

/** Sends the same request whenever it is told to. `onAnswered` is called when its answer is whole. */
async function openConnection(url: URL, request: Buffer, onAnswered: (connection: Connection) => void) {
  const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
  await once(socket, 'connect');
  let missingBytes = 0;
  const connection: Connection = { socket, sentAt: 0, send: () => socket.write(request) };
  socket.on('data', (chunk) => {
    if (missingBytes === 0) {
      const head = chunk.toString('latin1', 0, HEAD_BYTES);
      if (!head.startsWith('HTTP/1.1 200 ')) socket.destroy(new Error(`the server answered ${head.split('\r\n')[0]}`));
      missingBytes = messageBytes(head) ?? Number.NaN;
    }
    missingBytes -= chunk.length;
    if (missingBytes === 0) onAnswered(connection);
  });
  return connection;
}

interface Connection {
  readonly socket: Socket;
  sentAt: number;
  send(): void;
}

/**
 * Sends requests evenly over the time, whether or not earlier ones are answered, and gives the latency of each in
 * milliseconds.
 * Load generators with a limited rate send a second's worth as fast as they can and then rest: that is full load in bursts. A timer
 * has a resolution of a millisecond and would send requests in pairs. So a thread of its own gives the beat. HTTP is done by hand:
 * two cores are often two halves of one, and what the client does takes from the speed of the server.
 */
export async function pacedLoad({ url, headers, body, perSecond, seconds }: PacedLoad): Promise<number[]> {
  const target = new URL(url);
  const head = Object.entries({ host: target.host, ...headers, 'content-length': String(Buffer.byteLength(body)) })
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('');
  const request = Buffer.from(`POST ${target.pathname} HTTP/1.1\r\n${head}\r\n${body}`);
  const warmUp = Math.floor(perSecond * WARM_UP_SECONDS);
  const total = warmUp + Math.floor(perSecond * seconds);
  const { promise: done, resolve, reject } = Promise.withResolvers<void>();
  const latencies: number[] = [];
  const waitingSince: number[] = [];
  let answered = 0;

  const send = (connection: Connection, since: number): void => {
    connection.sentAt = since;
    connection.send();
  };
  const onAnswered = (connection: Connection): void => {
    answered += 1;
    if (answered > warmUp) latencies.push(performance.now() - connection.sentAt);
    if (answered === total) resolve();
    const since = waitingSince.shift();
    if (since === undefined) free.push(connection);
    else send(connection, since);
  };
  const connections = await Promise.all(
    Array.from({ length: CONNECTIONS }, () => openConnection(target, request, onAnswered)),
  );
  const free = [...connections];
  for (const { socket } of connections) {
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('the server closed a connection')));
  }
  const metronome = new Worker(join(import.meta.dirname, 'metronome.ts'), { workerData: { perSecond, beats: total } });
  metronome.on('error', reject);
  metronome.on('message', () => {
    const connection = free.shift();
    if (connection !== undefined) send(connection, performance.now());
    else if (waitingSince.push(performance.now()) > MAX_UNDER_WAY)
      reject(new Error(`the server does not keep up with ${perSecond} requests a second`));
  });
  try {
    await done;
  } finally {
    await metronome.terminate();
    for (const { socket } of connections) socket.destroy();
  }
  return latencies;
}
