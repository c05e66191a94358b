/**
 * Measures how much of the heap one open chat stream takes: a scavenge of V8 copies it, so it decides how long a thousand streams hold up
 * other requests. Does not depend on the load of the machine.
 *
 *   node bench/stream-memory.ts [--before <checkout>] [--streams 300] [--prompt <characters>]
 */
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { FILE_THREADS, SERVE_FLAGS } from '../bin/serve-flags.mjs';
import { printConditions } from './measure.ts';
import { type Program, startProgram } from './program.ts';
import { postBytes } from './raw-http.ts';
import { FIRST_WORD, KEY, MODEL } from './replicas/chat.ts';

const { values } = parseArgs({
  options: {
    before: { type: 'string' },
    streams: { type: 'string', default: '300' },
    prompt: { type: 'string', default: '70' },
  },
});
const count = Number(values.streams);
const body = JSON.stringify({
  model: MODEL,
  messages: [{ role: 'user', content: 'x'.repeat(Number(values.prompt)) }],
  stream: true,
});
/** Opened and closed before the measurement, so that V8 knows the code. */
const WARM_UPS = 2;
/** Longer than connections to the upstream are kept. */
const QUIET_MS = 5_000;
const SETTLE_MS = 3_000;

async function startServer(root: string, directory: string, upstream: string): Promise<Program> {
  const hook = ['--expose-gc', '--import', join(import.meta.dirname, 'replicas/heap-on-signal.ts')];
  return startProgram(
    [process.execPath, ...hook, ...SERVE_FLAGS, join(root, 'packages/server/src/main.ts'), 'serve', '--port', '0'],
    {
      BAOBAB_DATA_DIR: directory,
      BAOBAB_FIRST_KEY: KEY,
      BAOBAB_LOG_LEVEL: 'error',
      BAOBAB_LIMITS_CHAT_RPM: '100000000',
      BAOBAB_LIMITS_CHAT_TPM: '1000000000000',
      BAOBAB_UPSTREAMS: JSON.stringify([
        { model: MODEL, url: `${upstream}/v1`, kind: 'openai', max_concurrency: 4 * count },
      ]),
      UV_THREADPOOL_SIZE: FILE_THREADS,
    },
  );
}

async function heapOf({ process: server }: Program): Promise<number> {
  server.kill('SIGUSR2');
  for (;;) {
    const [text] = (await once(server.stdout as NonNullable<typeof server.stdout>, 'data')) as [Buffer];
    const heap = /^heap (\d+)/m.exec(text.toString())?.[1];
    if (heap !== undefined) return Number(heap);
  }
}

/** Resolves when every stream has its first word. */
function openStreams(address: string): Promise<Socket[]> {
  const url = new URL(`${address}/v1/chat/completions`);
  const request = postBytes(url, { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' }, body);
  const open = async (): Promise<Socket> => {
    const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
    socket.write(request);
    let text = '';
    while (!text.includes(FIRST_WORD)) {
      text += String((await once(socket, 'data'))[0]);
      if (!text.startsWith('HTTP/1.1 200')) throw new Error(`unexpected answer: ${text.slice(0, 500)}`);
    }
    socket.resume();
    return socket;
  };
  return Promise.all(Array.from({ length: count }, open));
}

async function measure(root: string, upstream: string): Promise<number> {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-bench-'));
  await using server = await startServer(root, join(directory.path, 'data'), upstream);
  for (let round = 0; round < WARM_UPS; round += 1) {
    for (const socket of await openStreams(server.address)) socket.destroy();
    await sleep(QUIET_MS / WARM_UPS);
  }
  await sleep(QUIET_MS);
  const before = await heapOf(server);
  const sockets = await openStreams(server.address);
  await sleep(SETTLE_MS);
  const after = await heapOf(server);
  for (const socket of sockets) socket.destroy();
  return (after - before) / count / 1024;
}

printConditions('Memory of open streams');
await using upstream = await startProgram([process.execPath, join(import.meta.dirname, 'replicas/upstream.ts')], {
  STREAM_WORDS: '1000',
  WORD_INTERVAL_MS: '1500',
});
const sides = [['Baobab', join(import.meta.dirname, '..')], ...(values.before ? [['before', values.before]] : [])];
for (const [name, root] of sides) {
  console.log(
    `${name}: ${(await measure(root as string, upstream.address)).toFixed(1)} KB for each of ${count} streams`,
  );
}
