/**
 * Compares streams of POST /v1/chat/completions with llama-server: the same GGUF file, prompts and sampling, both over HTTP. Both sides
 * alternate. On a machine with a GPU that `baobab gpu test` accepts, both sides use it.
 *
 *   LLAMA_SERVER=/path/to/llama-server node bench/llama-server.ts [--model file.gguf] [--streams 1,4,8] [--tokens 48] [--rounds 5]
 *     [--threads 2] [--server-threads 2] [--context 2048] [--gpu] [--seed 7] [--data-dir dir]
 *
 * LLAMA_SERVER may be a command with arguments, such as "venv/bin/python bench/chat/xllamacpp-server.py". It must be able to run
 * `--parallel` sequences of `--context` tokens side by side, as the service does. `--data-dir` keeps what was found out about the GPU.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { askEngines } from '../packages/server/src/control/client.ts';
import { MODELS_DIR, startServer } from '../test/acceptance/start-server.ts';
import { freePort } from '../test/fixtures/free-port.ts';
import type { StreamFigures } from './chat/raw-llama.ts';
import { createHttpSide } from './chat/sides.ts';
import { childrenOf, createReport, median, printConditions, processorSeconds } from './measure.ts';

const cores = availableParallelism();
const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    model: { type: 'string', default: join(MODELS_DIR, 'huggingfacetb/smollm2-135m-instruct/2026-11-16/model.gguf') },
    streams: { type: 'string', default: '1,4,8' },
    tokens: { type: 'string' },
    rounds: { type: 'string' },
    /** Of the service; 0: its own choice. */
    threads: { type: 'string', default: '0' },
    'server-threads': { type: 'string', default: String(cores) },
    context: { type: 'string', default: '2048' },
    gpu: { type: 'boolean', default: false },
    /** Every stream has it. */
    seed: { type: 'string' },
    'data-dir': { type: 'string' },
    goal: { type: 'string', default: '0.95' },
  },
});
const rounds = Number(values.rounds ?? (values.quick ? 2 : 7));
const maxTokens = Number(values.tokens ?? (values.quick ? 16 : 64));
const streamCounts = values.streams.split(',').map(Number);
const sequences = Math.max(...streamCounts);
const report = createReport();
const SLUG = 'bench/chat';

async function startLlamaServer(): Promise<{ address: string; process: ChildProcess }> {
  const [command = '', ...before] = (process.env.LLAMA_SERVER ?? 'llama-server').split(' ');
  const port = await freePort();
  const flags = {
    model: resolve(values.model),
    host: '127.0.0.1',
    port,
    threads: values['server-threads'],
    parallel: sequences,
    'ctx-size': Number(values.context) * sequences,
    'n-gpu-layers': values.gpu ? 999 : 0,
  };
  const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const child = spawn(command, [...before, ...args], {
    stdio: ['ignore', 'ignore', process.env.SHOW ? 'inherit' : 'ignore'],
  });
  process.on('exit', () => child.kill('SIGKILL'));
  process.on('SIGTERM', () => process.exit(1));
  const address = `http://127.0.0.1:${port}`;
  while (!(await isHealthy(address))) {
    if (child.exitCode !== null) throw new Error(`${command} ended with ${child.exitCode}; set SHOW=1 to see why`);
    await new Promise((later) => setTimeout(later, 200));
  }
  return { address, process: child };
}

const isHealthy = (address: string) =>
  fetch(`${address}/health`).then(
    ({ ok }) => ok,
    () => false,
  );

const catalogDir = mkdtempSync(join(tmpdir(), 'baobab-bench-'));
writeFileSync(
  join(catalogDir, 'chat.yaml'),
  JSON.stringify({
    slug: SLUG,
    modality: 'chat',
    created: '2026-01-01',
    context_length: Number(values.context),
    source: { kind: 'file', path: resolve(values.model) },
  }),
);

const other = await startLlamaServer();
await using server = await startServer({
  ...(values['data-dir'] !== undefined && { dataDir: values['data-dir'] }),
  env: {
    BAOBAB_LOG_LEVEL: 'info',
    BAOBAB_CATALOG_DIR: catalogDir,
    BAOBAB_ENGINES_LLAMA_THREADS: values.threads,
    BAOBAB_ENGINES_LLAMA_SEQUENCES: String(sequences),
    BAOBAB_ENGINES_LLAMA_GPU: values.gpu ? 'auto' : 'off',
    BAOBAB_LIMITS_CHAT_RPM: '1000000',
    BAOBAB_LIMITS_CHAT_TPM: '100000000',
  },
});
const seed = values.seed === undefined ? {} : { seed: Number(values.seed) };
/** As the service chooses by `top_p`. */
const sampling = { top_k: 4_096, min_p: 0, ...seed };
const sides = {
  service: createHttpSide({ ...server, model: SLUG, connections: sequences, keepAlive: false, extra: seed }),
  other: createHttpSide({
    address: other.address,
    model: 'any',
    connections: sequences,
    keepAlive: false,
    extra: sampling,
  }),
};
type Name = keyof typeof sides;

function pidsOf(name: Name): number[] {
  const root = (name === 'service' ? server.process.pid : other.process.pid) ?? 0;
  return [root, ...childrenOf(root)];
}

let asked = 0;
/** Differs from the first letter on, so only the start of the template can be reused. */
function question(): string {
  const number = asked++;
  return `${String.fromCharCode(65 + (number % 26))}${1000 + number} trees stand by the river. Tell their story.`;
}

interface Turn extends StreamFigures {
  /** Processor milliseconds for each new token. */
  costMs: number;
}

async function turnOf(name: Name, prompts: readonly string[]): Promise<Turn> {
  const pids = pidsOf(name);
  const before = processorSeconds(pids);
  const figures = await sides[name].run({ prompts, maxTokens });
  return { ...figures, costMs: ((processorSeconds(pids) - before) * 1000) / figures.tokens };
}

async function compare(streams: number): Promise<void> {
  const turns: Record<Name, Turn>[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const prompts = Array.from({ length: streams }, question);
    const names: Name[] = round % 2 === 0 ? ['other', 'service'] : ['service', 'other'];
    const turn: Partial<Record<Name, Turn>> = {};
    for (const name of names) turn[name] = await turnOf(name, prompts);
    turns.push(turn as Record<Name, Turn>);
  }
  for (const name of ['other', 'service'] as const) {
    const of = (pick: (turn: Turn) => number) => median(turns.map((turn) => pick(turn[name])));
    console.log(
      `${streams} stream(s), ${name === 'other' ? 'llama-server' : 'service'}: ${of((turn) => turn.tokensPerSecond).toFixed(1)} tokens/s, ` +
        `first token at ${of((turn) => median(turn.firstTokenMs)).toFixed(0)} ms (median stream), ` +
        `${of((turn) => turn.costMs).toFixed(2)} ms of processor time for each token`,
    );
  }
  const ratios = turns.map(({ service, other }) => service.tokensPerSecond / other.tokensPerSecond);
  console.log(`  each round: ${ratios.map((ratio) => ratio.toFixed(2)).join(', ')}`);
  report.add({
    name: `${streams} stream(s), tokens/s / llama-server`,
    value: median(ratios),
    atLeast: Number(values.goal),
  });
  report.add({
    name: '  by processor time',
    value: median(turns.map(({ service, other }) => other.costMs / service.costMs)),
  });
  const later = turns.map(({ service, other }) => median(service.firstTokenMs) - median(other.firstTokenMs));
  report.add({ name: '  first token delayed by', value: median(later), unit: ' ms', digits: 1 });
}

printConditions(`Chat beside llama-server, ${values.model}, ${maxTokens} tokens per stream, ${rounds} rounds`);
const prompts = Array.from({ length: sequences }, question);
for (const side of Object.values(sides)) await side.run({ prompts, maxTokens: 2 });
console.log(`the service runs on ${JSON.stringify((await askEngines(server.dataDir))?.map(({ device }) => device))}\n`);
for (const streams of streamCounts) await compare(streams);
report.print();
for (const side of Object.values(sides)) side.close();
other.process.kill('SIGKILL');
