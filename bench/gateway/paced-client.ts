/**
 * Sends evenly spaced requests. Rate-limited load generators send a second's worth as fast as they can and then pause, which is full load
 * in bursts. Timers have a resolution of a millisecond and would send requests in pairs. So a separate thread sends the ticks. Ticks that
 * arrive too late, because this process had no core, are skipped: catching up would be a burst too.
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

/** The same as at full load. More requests wait here, and the wait counts as latency. */
const CONNECTIONS = 32;
/** The run fails when a server is further behind. */
const MAX_BEHIND_SECONDS = 2;
/** Longer than a client needs to read a burst of answers after a server pause. */
const MAX_LATE_MS = 2;
/** Not counted, because the connections are new. */
const WARM_UP_SECONDS = 1;

export interface PacedAnswers {
  /** Milliseconds per request. */
  latencies: number[];
  /** Share of requests skipped because this process had no core when they were due. */
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
  /** The smallest delay between a tick's due time and its arrival. */
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
      reject(new Error(`the server does not keep up with ${perSecond} requests per second`));
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
