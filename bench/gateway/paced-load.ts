import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { Pool } from 'undici';

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
/** While connections are made nothing is counted. */
const WARM_UP_SECONDS = 1;

/**
 * Sends requests evenly over the time, whether or not earlier ones are answered, and gives the latency of each in
 * milliseconds.
 * Load generators with a limited rate send a second's worth as fast as they can and then rest: that is full load in bursts. A timer
 * has a resolution of a millisecond and would send requests in pairs. So a thread of its own gives the beat.
 */
export async function pacedLoad({ url, headers, body, perSecond, seconds }: PacedLoad): Promise<number[]> {
  const { origin, pathname: path } = new URL(url);
  const pool = new Pool(origin, { connections: CONNECTIONS });
  const latencies: number[] = [];
  const warmUp = Math.floor(perSecond * WARM_UP_SECONDS);
  const total = warmUp + Math.floor(perSecond * seconds);
  const { promise: done, resolve, reject } = Promise.withResolvers<void>();
  let sent = 0;
  let answered = 0;

  const send = (): void => {
    sent += 1;
    const counts = sent > warmUp;
    const began = performance.now();
    pool.dispatch(
      { method: 'POST', path, headers, body },
      {
        onRequestStart() {},
        onResponseStart(_controller, status) {
          if (status !== 200) reject(new Error(`the server answered ${status}`));
        },
        onResponseData() {},
        onResponseEnd() {
          if (counts) latencies.push(performance.now() - began);
          answered += 1;
          if (answered === total) resolve();
        },
        onResponseError: (_controller, error) => reject(error),
      },
    );
  };

  const metronome = new Worker(join(import.meta.dirname, 'metronome.ts'), { workerData: { perSecond, beats: total } });
  metronome.on('error', reject);
  metronome.on('message', () => {
    if (sent - answered < MAX_UNDER_WAY) send();
    else reject(new Error(`the server does not keep up with ${perSecond} requests a second`));
  });
  try {
    await done;
  } finally {
    await metronome.terminate();
    await pool.destroy();
  }
  return latencies;
}
