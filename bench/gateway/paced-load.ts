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
 * has a resolution of a millisecond and would send requests in pairs, so this looks at the clock in every turn of the event loop.
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

  const startedAt = performance.now();
  let over = false;
  const turn = (): void => {
    if (over) return;
    const due = Math.min(total, Math.floor(((performance.now() - startedAt) / 1000) * perSecond));
    while (sent < due && sent - answered < MAX_UNDER_WAY) send();
    if (sent < due) reject(new Error(`the server does not keep up with ${perSecond} requests a second`));
    setImmediate(turn);
  };
  turn();
  try {
    await done;
  } finally {
    over = true;
    await pool.destroy();
  }
  return latencies;
}
