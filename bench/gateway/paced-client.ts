/**
 * Sends requests evenly over the time. Load generators with a limited rate send a second's worth as fast as they can and then rest: that
 * is full load in bursts. A timer has a resolution of a millisecond and would send requests in pairs. So a thread of its own gives the
 * beat. Beats that this process hears too late, because it had no core meanwhile, are left out: to make up for them would be a burst too.
 */
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { openConnection, postBytes } from '../raw-http.ts';

export interface PacedLoad {
  url: string;
  headers: Record<string, string>;
  body: string;
  perSecond: number;
  seconds: number;
}

/** As many as at full load. Requests beyond them wait here, and that counts. */
const CONNECTIONS = 32;
/** A server that is further behind does not keep up. */
const MAX_BEHIND_SECONDS = 2;
/** More than a client needs to read what a server that stood still answers at once. */
const MAX_LATE_MS = 2;
/** While the connections are new nothing is counted. */
const WARM_UP_SECONDS = 1;

export interface PacedAnswers {
  /** Of each request, in milliseconds. */
  latencies: number[];
  /** Share of the requests that were left out, because this process had no core when they were due. */
  missed: number;
}

interface Connection {
  readonly socket: Socket;
  sentAt: number;
}

async function run({ url, headers, body, perSecond, seconds }: PacedLoad): Promise<PacedAnswers> {
  const target = new URL(url);
  const request = postBytes(target, headers, body);
  const warmUp = Math.floor(perSecond * WARM_UP_SECONDS);
  const total = warmUp + Math.floor(perSecond * seconds);
  const { promise: done, resolve, reject } = Promise.withResolvers<void>();
  const latencies: number[] = [];
  const waitingSince: number[] = [];
  /** When a beat was heard, less when it was due: of the soonest one. */
  let soonest = Infinity;
  let answered = 0;
  let missed = 0;

  const send = (connection: Connection, since: number): void => {
    connection.sentAt = since;
    connection.socket.write(request);
  };
  const onAnswered = (connection: Connection): void => {
    answered += 1;
    if (answered > warmUp) latencies.push(performance.now() - connection.sentAt);
    if (answered + missed === total) resolve();
    const since = waitingSince.shift();
    if (since === undefined) free.push(connection);
    else send(connection, since);
  };
  const connections = await Promise.all(
    Array.from({ length: CONNECTIONS }, async (): Promise<Connection> => {
      const socket = await openConnection(target, () => onAnswered(connection));
      const connection = { socket, sentAt: 0 };
      connection.socket.on('error', reject);
      connection.socket.on('close', () => reject(new Error('the server closed a connection')));
      return connection;
    }),
  );
  const free = [...connections];
  const metronome = new Worker(join(import.meta.dirname, 'metronome.ts'), { workerData: { perSecond, beats: total } });
  metronome.on('error', reject);
  metronome.on('message', (beat: number) => {
    const now = performance.now();
    const heard = now - (beat * 1000) / perSecond;
    soonest = Math.min(soonest, heard);
    if (beat > warmUp && heard - soonest > MAX_LATE_MS) {
      missed += 1;
      if (answered + missed === total) resolve();
      return;
    }
    const connection = free.shift();
    if (connection !== undefined) send(connection, now);
    else if (waitingSince.push(now) > perSecond * MAX_BEHIND_SECONDS)
      reject(new Error(`the server does not keep up with ${perSecond} requests a second`));
  });
  try {
    await done;
  } finally {
    await metronome.terminate();
    for (const { socket } of connections) socket.destroy();
  }
  return { latencies, missed: missed / (total - warmUp) };
}

process.on('message', async (load: PacedLoad) => {
  globalThis.gc?.();
  process.send?.(await run(load));
});
