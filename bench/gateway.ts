/**
 * What the service adds in front of an engine: keys, limits, metering and idempotency all on, against a fake upstream on this machine,
 * beside a bare Fastify proxy that does none of it. Both sides run in one go, in turns.
 *
 *   node bench/gateway.ts [--seconds 6] [--rounds 5]
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import autocannon from 'autocannon';

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '6' }, rounds: { type: 'string', default: '5' } },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);
const MODEL = 'intfloat/e5-mistral-7b-instruct';
const KEY = 'bench-key-0123456789abcdef';
const HERE = import.meta.dirname;

/** One core for the server under test, the other for load and upstream, where the machine can do that. */
const pin = (core: number, command: string[]): string[] =>
  process.platform === 'linux' ? ['taskset', '-c', String(core), ...command] : command;

async function start(
  command: string[],
  env: Record<string, string>,
): Promise<{ child: ChildProcess; address: string }> {
  const [file, ...args] = command;
  const child = spawn(file as string, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    output += chunk;
    const address = /(http:\/\/127\.0\.0\.1:\d+)/.exec(output)?.[1];
    if (address !== undefined) {
      child.stdout?.resume();
      return { child, address };
    }
  }
  throw new Error(`it did not start: ${output}`);
}

function load(address: string, options: { connections: number; rate?: number; seconds: number }) {
  return autocannon({
    url: `${address}/v1/embeddings`,
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, input: 'What does the gateway cost?', encoding_format: 'base64' }),
    connections: options.connections,
    duration: options.seconds,
    ...(options.rate === undefined ? {} : { overallRate: options.rate }),
  });
}

const median = (numbers: number[]): number => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;

const directory = await mkdtemp(join(tmpdir(), 'baobab-bench-'));
const node = process.execPath;
const upstream = await start(pin(1, [node, join(HERE, 'gateway/upstream.ts')]), {});
const proxy = await start(pin(0, [node, join(HERE, 'gateway/bare-proxy.ts')]), { UPSTREAM: upstream.address });
await writeFile(
  join(directory, 'baobab.yaml'),
  [
    'log: { level: warn, format: json }',
    'limits: { embedding: { rpm: 100000000, tpm: 1000000000000 } }',
    'upstreams:',
    `  - { model: ${MODEL}, url: ${upstream.address}/v1, kind: openai, max_concurrency: 512 }`,
  ].join('\n'),
);
const baobab = await start(
  pin(0, [node, join(HERE, '../src/main.ts'), 'serve', '--port', '0', '--config', join(directory, 'baobab.yaml')]),
  {
    BAOBAB_DATA_DIR: join(directory, 'data'),
    BAOBAB_API_KEY: KEY,
  },
);

try {
  const sides = { 'bare proxy': proxy.address, baobab: baobab.address } as const;
  for (const address of Object.values(sides)) await load(address, { connections: 16, seconds: 2 });

  const rates: Record<string, number[]> = { 'bare proxy': [], baobab: [] };
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, address] of Object.entries(sides)) {
      const result = await load(address, { connections: 32, seconds });
      if (result.non2xx > 0) throw new Error(`${name}: ${result.non2xx} answers were no success`);
      rates[name]?.push(result.requests.average);
    }
  }
  const full = { bare: median(rates['bare proxy'] ?? []), baobab: median(rates.baobab ?? []) };
  console.log(
    `requests/s on one core, 32 connections: bare proxy ${full.bare.toFixed(0)}, Baobab ${full.baobab.toFixed(0)}`,
  );
  console.log(`  ratio ${(full.baobab / full.bare).toFixed(2)} (goal: at least 0.60)`);

  const half = Math.floor(full.baobab / 2);
  const latencies: Record<string, { p50: number[]; p99: number[] }> = {
    upstream: { p50: [], p99: [] },
    baobab: { p50: [], p99: [] },
  };
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, address] of [
      ['upstream', upstream.address],
      ['baobab', baobab.address],
    ] as const) {
      const { latency } = await load(address, { connections: 16, rate: half, seconds });
      latencies[name]?.p50.push(latency.p50);
      latencies[name]?.p99.push(latency.p99);
    }
  }
  const added = (quantile: 'p50' | 'p99') =>
    median(latencies.baobab?.[quantile] ?? []) - median(latencies.upstream?.[quantile] ?? []);
  console.log(
    `added latency at half load (${half} requests/s): p50 ${added('p50').toFixed(1)} ms (goal: under 1), p99 ${added('p99').toFixed(1)} ms (goal: under 5)`,
  );
} finally {
  for (const { child } of [baobab, proxy, upstream]) {
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
  await rm(directory, { recursive: true, force: true });
}
