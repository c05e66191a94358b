import type { Socket } from 'node:net';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { openConnection, postBytes, readAnswers } from '../raw-http.ts';

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
interface Connection {
  readonly socket: Socket;
  sentAt: number;
}

/**
 * Sends requests evenly over the time, whether or not earlier ones are answered, and gives the latency of each in
 * milliseconds.
 * Load generators with a limited rate send a second's worth as fast as they can and then rest: that is full load in bursts. A timer
 * has a resolution of a millisecond and would send requests in pairs. So a thread of its own gives the beat.
 */
export async function pacedLoad({ url, headers, body, perSecond, seconds }: PacedLoad): Promise<number[]> {
  const target = new URL(url);
  const request = postBytes(target, headers, body);
  const warmUp = Math.floor(perSecond * WARM_UP_SECONDS);
  const total = warmUp + Math.floor(perSecond * seconds);
  const { promise: done, resolve, reject } = Promise.withResolvers<void>();
  const latencies: number[] = [];
  const waitingSince: number[] = [];
  let answered = 0;

  const send = (connection: Connection, since: number): void => {
    connection.sentAt = since;
    connection.socket.write(request);
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
    Array.from({ length: CONNECTIONS }, async (): Promise<Connection> => {
      const connection = { socket: await openConnection(target), sentAt: 0 };
      readAnswers(connection.socket, () => onAnswered(connection));
      connection.socket.on('error', reject);
      connection.socket.on('close', () => reject(new Error('the server closed a connection')));
      return connection;
    }),
  );
  const free = [...connections];
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
