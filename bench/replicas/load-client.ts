/** Generates load in a process of its own; `load.ts` starts it. */
import { connect } from 'node:net';
import { openConnection, postBytes } from '../raw-http.ts';
import { FIRST_WORD } from './chat.ts';
import type { ClosedJob, ClosedResult, Job, StreamsJob, StreamsResult } from './load.ts';

/** Each connection sends its next request when the last one is answered. */
async function closed({ url, headers, body, connections, seconds }: ClosedJob): Promise<ClosedResult> {
  const target = new URL(url);
  const request = postBytes(target, headers, body);
  const latencies: number[] = [];
  const { promise: done, resolve, reject } = Promise.withResolvers<void>();
  let endsAt = Number.POSITIVE_INFINITY;
  let running = connections;
  const sockets = await Promise.all(
    Array.from({ length: connections }, async () => {
      let sentAt = 0;
      const send = () => {
        sentAt = performance.now();
        socket.write(request);
      };
      const socket = await openConnection(target, () => {
        const now = performance.now();
        latencies.push(now - sentAt);
        if (now < endsAt) send();
        else if (--running === 0) resolve();
      });
      socket.on('error', reject);
      socket.on('close', () => reject(new Error('the server closed a connection')));
      return { socket, send };
    }),
  );
  const startedAt = performance.now();
  endsAt = startedAt + seconds * 1000;
  for (const { send } of sockets) send();
  await done;
  const elapsed = (performance.now() - startedAt) / 1000;
  for (const { socket } of sockets) {
    socket.removeAllListeners('close');
    socket.destroy();
  }
  return { perSecond: latencies.length / elapsed, latencies };
}

const LAST = 'data: [DONE]';

/** One stream on a connection of its own. Resolves to the time until its first word, from before the connection opened. */
function stream(target: URL, request: Buffer): { firstWord: Promise<number>; ended: Promise<void> } {
  const [first, end] = [Promise.withResolvers<number>(), Promise.withResolvers<void>()];
  // Awaited when all streams have begun: prevents an unhandled rejection until then.
  for (const { promise } of [first, end]) promise.catch(() => {});
  const startedAt = performance.now();
  const socket = connect({ host: target.hostname, port: Number(target.port), noDelay: true });
  let text = '';
  let begun = false;
  socket.on('connect', () => socket.write(request));
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1');
    if (!begun) {
      if (text.startsWith('HTTP/1.1') && !text.startsWith('HTTP/1.1 200'))
        socket.destroy(new Error(text.slice(0, 500)));
      if (!text.includes(FIRST_WORD)) return;
      begun = true;
      first.resolve(performance.now() - startedAt);
    }
    if (text.includes(LAST)) {
      end.resolve();
      socket.destroy();
    }
    text = text.slice(-LAST.length);
  });
  const fail = (error: Error) => {
    first.reject(error);
    end.reject(error);
  };
  socket.on('error', fail);
  socket.on('close', () => fail(new Error('the server closed a stream before its end')));
  return { firstWord: first.promise, ended: end.promise };
}

/** Asks for the health of the server at a fixed rate, each time on a new connection as load balancers do. */
function probe(url: URL): Promise<number> {
  const startedAt = performance.now();
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  // Awaited after the last stream.
  promise.catch(() => {});
  const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
  socket.on('connect', () =>
    socket.write(`GET ${url.pathname} HTTP/1.1\r\nhost: ${url.host}\r\nconnection: close\r\n\r\n`),
  );
  socket.once('data', (bytes) => {
    const answer = bytes.toString('latin1');
    if (answer.startsWith('HTTP/1.1 200')) resolve(performance.now() - startedAt);
    else reject(new Error(`the health probe was answered with: ${answer.slice(0, 200)}`));
    socket.destroy();
  });
  socket.on('error', reject);
  socket.on('close', () => reject(new Error('the server closed a health probe without an answer')));
  return promise;
}

const PROBE_INTERVAL_MS = 25;

async function streams({ url, healthUrl, headers, body, count, overMs }: StreamsJob): Promise<StreamsResult> {
  const target = new URL(url);
  const request = postBytes(target, headers, body);
  const health = new URL(healthUrl);
  const begun: { firstWord: Promise<number>; ended: Promise<void> }[] = [];
  const probes: Promise<number>[] = [];
  const startedAt = performance.now();
  const { promise: allBegun, resolve } = Promise.withResolvers<void>();
  const timer = setInterval(() => {
    const elapsed = performance.now() - startedAt;
    const due = Math.min(count, Math.floor((elapsed / overMs) * count));
    while (begun.length < due) begun.push(stream(target, request));
    while (probes.length < elapsed / PROBE_INTERVAL_MS) probes.push(probe(health));
    if (begun.length === count) {
      clearInterval(timer);
      resolve();
    }
  }, 1);
  await allBegun;
  const firstWords = Promise.all(begun.map(({ firstWord }) => firstWord));
  let isWaiting = true;
  const waited = firstWords.finally(() => {
    isWaiting = false;
  });
  waited.catch(() => {});
  // Probes go on until every stream has begun.
  while (isWaiting) {
    probes.push(probe(health));
    await new Promise((wake) => setTimeout(wake, PROBE_INTERVAL_MS));
  }
  await Promise.all(begun.map(({ ended }) => ended));
  return {
    firstWords: await waited,
    probes: await Promise.all(probes),
    seconds: (performance.now() - startedAt) / 1000,
  };
}

process.on('message', async (job: Job) => {
  globalThis.gc?.();
  try {
    process.send?.({ result: job.kind === 'closed' ? await closed(job) : await streams(job) });
  } catch (error) {
    process.send?.({ problem: (error as Error).message });
  }
});
