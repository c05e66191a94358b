import { fork } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { parseArgs } from 'node:util';
import { systemClock } from '../packages/core/src/runtime/clock.ts';
import { createRemoteModel } from '../packages/server/src/upstreams/remote-model.ts';
import { startFakeUpstream } from '../test/fixtures/fake-upstream.ts';

/**
 * Measures the latency that the remote engine adds to a stream. A fake upstream in its own process sends timestamped chunks, which are
 * read by a bare HTTP client and through the engine. Both alternate, because timings drift far more than they differ.
 */
const { values: options } = parseArgs({
  options: {
    streams: { type: 'string', default: '200' },
    chunks: { type: 'string', default: '100' },
    'interval-ms': { type: 'string', default: '50' },
    rounds: { type: 'string', default: '3' },
    upstream: { type: 'boolean', default: false },
  },
});
const streams = Number(options.streams);
const GOAL_ADDED_MS = 1;
const GOAL_STREAM_KB = 100;

const now = (): number => Number(process.hrtime.bigint() / 1_000n) / 1_000;
const percentile = (sorted: readonly number[], share: number): number => sorted[Math.floor(sorted.length * share)] ?? 0;

async function serveUpstream(): Promise<void> {
  const chunk = (): string =>
    `data: ${JSON.stringify({
      id: 'chatcmpl-1',
      object: 'chat.completion.chunk',
      created: 1_760_000_000,
      model: 'bench',
      choices: [{ index: 0, delta: { content: String(now()) }, logprobs: null, finish_reason: null }],
    })}\n\n`;
  const end = `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}\n\ndata: [DONE]\n\n`;
  const fake = await startFakeUpstream('openai', {
    chunkDelayMs: Number(options['interval-ms']),
    rawPieces: [...Array.from({ length: Number(options.chunks) }, () => chunk), end],
    withDone: false,
  });
  process.send?.(fake.url);
}

/** Milliseconds from sending to arrival, per chunk. */
function readBare(url: string): Promise<number[]> {
  return new Promise((resolve, reject) => {
    const delays: number[] = [];
    const call = request(
      `${url}/chat/completions`,
      { method: 'POST', headers: { 'content-type': 'application/json' } },
      (answer) => {
        answer.setEncoding('utf8');
        answer.on('data', (data: string) => {
          for (const [, sentAt] of data.matchAll(/"content":"([\d.]+)"/g)) delays.push(now() - Number(sentAt));
        });
        answer.on('end', () => resolve(delays));
      },
    );
    call.on('error', reject);
    call.end('{}');
  });
}

async function measure(): Promise<void> {
  const child = fork(import.meta.filename, ['--upstream', ...process.argv.slice(2)]);
  const [message]: unknown[] = await once(child, 'message');
  const url = String(message);
  const model = createRemoteModel({
    slug: 'bench/model',
    version: '1',
    task: 'chat',
    contextLength: 4096,
    ownRegion: 'local',
    clock: systemClock,
    metrics: { addUpstream: () => ({ finished() {}, retried() {}, removed() {} }), addQueue() {} },
    logger: { info() {}, warn: (fields, text) => console.error(text, fields) },
    upstreams: [
      {
        model: 'bench/model',
        url,
        kind: 'openai',
        maxConcurrency: streams,
        connectTimeoutMs: 5_000,
        firstByteTimeoutMs: 60_000,
        totalTimeoutMs: 600_000,
      },
    ],
  });
  const readThroughEngine = async (): Promise<number[]> => {
    const delays: number[] = [];
    await model.chat?.generate(
      { prompt: { messages: [{ role: 'user', content: 'Hi' }] } },
      {
        requestId: 'bench',
        accountId: 'bench',
        keyId: 'bench',
        priority: 'interactive',
        signal: new AbortController().signal,
      },
      {
        deliver(event) {
          if (event.type === 'text-delta') delays.push(now() - Number(event.text));
        },
        used() {},
      },
    );
    return delays;
  };
  const round = async (read: () => Promise<number[]>): Promise<number[]> =>
    (await Promise.all(Array.from({ length: streams }, read))).flat().sort((a, b) => a - b);

  const halfTimeMs = (Number(options.chunks) * Number(options['interval-ms'])) / 2;
  const added: number[] = [];
  let streamKb = 0;
  await round(readThroughEngine);
  for (let i = 0; i < Number(options.rounds); i++) {
    const bare = await round(() => readBare(url));
    globalThis.gc?.();
    const before = process.memoryUsage();
    const halfTime = setTimeout(() => {
      globalThis.gc?.();
      const { heapUsed, external } = process.memoryUsage();
      streamKb = Math.max(streamKb, (heapUsed + external - before.heapUsed - before.external) / 1024 / streams);
    }, halfTimeMs);
    const engine = await round(readThroughEngine);
    clearTimeout(halfTime);
    added.push(percentile(engine, 0.5) - percentile(bare, 0.5));
    for (const [name, delays] of Object.entries({ bare, engine })) {
      const [p50, p99] = [percentile(delays, 0.5), percentile(delays, 0.99)].map((ms) => ms.toFixed(2));
      console.log(`${name.padEnd(7)} ${delays.length} chunks, p50 ${p50} ms, p99 ${p99} ms`);
    }
  }
  const median = percentile(
    added.toSorted((a, b) => a - b),
    0.5,
  );
  console.log(`added at p50: ${median.toFixed(2)} ms (goal: under ${GOAL_ADDED_MS})`);
  console.log(`memory per stream: ${streamKb.toFixed(0)} KB (goal: under ${GOAL_STREAM_KB}; run with --expose-gc)`);
  await model[Symbol.asyncDispose]();
  child.kill();
}

await (options.upstream ? serveUpstream() : measure());
