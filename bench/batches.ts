import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import OpenAI, { toFile } from 'openai';
import { Pool } from 'undici';
import { startServer } from '../test/acceptance/start-server.ts';
import { passages } from './embeddings/texts.ts';
import { median, percentile } from './measure.ts';

/**
 * Compares the lines of a batch with single requests to the embeddings endpoint, in one run on one server, with the same texts and
 * concurrency. Both alternate, because timings on a busy machine drift. The ratio is the median over the turns.
 */
const { values } = parseArgs({
  options: {
    lines: { type: 'string', default: '10000' },
    turns: { type: 'string', default: '3' },
    concurrency: { type: 'string', default: '32' },
    model: { type: 'string', default: 'sentence-transformers/all-minilm-l6-v2' },
  },
});
const lineCount = Number(values.lines);
const turns = Number(values.turns);
const concurrency = Number(values.concurrency);
const GOAL = 0.8;

const bodies = passages(lineCount, { fewest: 12, most: 12 }).map((input) => ({ model: values.model, input }));

await using server = await startServer({
  env: {
    BAOBAB_LOG_LEVEL: 'warn',
    BAOBAB_LIMITS_EMBEDDING_RPM: '100000000',
    BAOBAB_LIMITS_EMBEDDING_TPM: '1000000000',
    BAOBAB_BATCHES_CONCURRENCY: String(concurrency),
  },
});
const client = new OpenAI({ apiKey: server.apiKey, baseURL: `${server.address}/v1` });
const pool = new Pool(server.address, { connections: concurrency });

async function request(body: object): Promise<void> {
  const answer = await pool.request({
    method: 'POST',
    path: '/v1/embeddings',
    headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  await answer.body.dump({ limit: Number.POSITIVE_INFINITY });
  if (answer.statusCode !== 200) throw new Error(`the endpoint answered ${answer.statusCode}`);
}

/** Requests per second. */
async function interactive(count: number): Promise<number> {
  let next = 0;
  const began = performance.now();
  async function work(): Promise<void> {
    while (next < count) await request(bodies[next++] as object);
  }
  await Promise.all(Array.from({ length: concurrency }, work));
  return count / ((performance.now() - began) / 1000);
}

/** Milliseconds of sequential requests. */
async function latencies(count: number): Promise<number[]> {
  const found: number[] = [];
  for (let index = 0; index < count; index += 1) {
    const began = performance.now();
    await request(bodies[index % lineCount] as object);
    found.push(performance.now() - began);
  }
  return found;
}
const shown = (times: readonly number[]) =>
  `p50 ${percentile(times, 0.5).toFixed(1)} ms, p95 ${percentile(times, 0.95).toFixed(1)} ms`;

async function order(): Promise<string> {
  const lines = bodies.map((body, index) =>
    JSON.stringify({ custom_id: `line-${index}`, method: 'POST', url: '/v1/embeddings', body }),
  );
  const file = await client.files.create({
    file: await toFile(Buffer.from(lines.join('\n')), 'bench.jsonl'),
    purpose: 'batch',
  });
  const { id } = await client.batches.create({
    input_file_id: file.id,
    endpoint: '/v1/embeddings',
    completion_window: '24h',
  });
  return id;
}

/** Lines per second from creation to the output file, with validation and finalizing. */
async function batch(): Promise<number> {
  const began = performance.now();
  const id = await order();
  while (true) {
    const found = await client.batches.retrieve(id);
    if (found.status === 'completed') break;
    if (found.status === 'failed') throw new Error('the batch failed');
    await sleep(50);
  }
  return lineCount / ((performance.now() - began) / 1000);
}

try {
  await interactive(Math.min(500, lineCount));
  const ratios: number[] = [];
  for (let turn = 1; turn <= turns; turn += 1) {
    const single = await interactive(lineCount);
    const lines = await batch();
    ratios.push(lines / single);
    console.log(
      `turn ${turn}: endpoint ${single.toFixed(0)}/s, batch ${lines.toFixed(0)}/s, ratio ${(lines / single).toFixed(2)}`,
    );
  }
  const ratio = median(ratios);
  console.log(`batch lines run at ${ratio.toFixed(2)} of the endpoint's own throughput (goal ${GOAL})`);
  if (ratio < GOAL) process.exitCode = 1;

  const alone = await latencies(200);
  const id = await order();
  while ((await client.batches.retrieve(id)).status !== 'in_progress') await sleep(20);
  const beside = await latencies(200);
  const { status } = await client.batches.retrieve(id);
  await client.batches.cancel(id).catch(() => {});
  console.log(`single requests alone: ${shown(alone)}; during a batch (${status}): ${shown(beside)}`);
} finally {
  await pool.close();
}
