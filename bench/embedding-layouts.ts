/**
 * Compares POST /v1/embeddings on all cores, in the layout that the service chooses, with onnxruntime alone in every layout of processes
 * and threads: the bundled multilingual model, inputs of equal length, with activation ranges by batch and by token. The sides alternate.
 * It needs no network and no downloaded weights.
 *
 *   node bench/embedding-layouts.ts [--quick] [--rounds 3] [--seconds 2] [--words 113] [--layouts 16x1,8x2] [--data-dir dir]
 *     [--encoding float] [--processes 15] [--ranges batch]
 *
 * Clients ask for base64 unless told otherwise, as the official SDKs do. On Linux it also prints where the processor time went.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startServer } from '../test/acceptance/start-server.ts';
import type { ClientOrder, ClientResult } from './embeddings/clients.ts';
import { cpuTimes, type ProcessorTimes, timeOnCores } from './embeddings/processor-time.ts';
import type { RawOrder, RawResult, RawSetup } from './embeddings/raw-runtime.ts';
import { passages } from './embeddings/texts.ts';
import { createReport, median, printConditions } from './measure.ts';

const cores = availableParallelism();
const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    words: { type: 'string', default: '113' },
    layouts: { type: 'string' },
    'data-dir': { type: 'string' },
    encoding: { type: 'string', default: 'base64' },
    /** Of the service, with one thread each. Its own choice otherwise. */
    processes: { type: 'string' },
    ranges: { type: 'string', default: 'batch,token' },
  },
});
const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
const seconds = Number(values.seconds ?? (values.quick ? 1 : 2));
const DIRECTORY = join(import.meta.dirname, '../models/embed-multilingual/2026-11-15');
const MODEL = 'model_quantized.onnx';
type Ranges = 'batch' | 'token';
const RANGES = values.ranges.split(',') as Ranges[];
/** Tokens of one run: one, two and four inputs of the usual length. */
const TOKEN_BUDGETS = [128, 256, 512];
/** Inputs of one request, and requests at a time. */
const LOADS = [
  { inputs: 64, concurrency: 4 },
  { inputs: 64, concurrency: 16 },
  { inputs: 1, concurrency: 64 },
  { inputs: 1, concurrency: 256 },
];
const TRIAL_MS = 60_000;

interface Shape {
  processes: number;
  threads: number;
}

const layouts: Shape[] = (values.layouts ?? defaultLayouts())
  .split(',')
  .map((each) => each.split('x').map(Number))
  .map(([processes = 1, threads = 1]) => ({ processes, threads }));

function defaultLayouts(): string {
  const threads = [1, 2, 4, cores].filter((each, at, all) => each <= cores && all.indexOf(each) === at);
  return threads.map((each) => `${Math.floor(cores / each)}x${each}`).join(',');
}

const slugOf = (ranges: Ranges) => `bench/ranges-${ranges}`;
const catalogDir = mkdtempSync(join(tmpdir(), 'baobab-bench-'));
for (const ranges of RANGES) {
  const entry = {
    slug: slugOf(ranges),
    modality: 'embedding',
    created: '2026-01-01',
    context_length: 512,
    dimensions: 384,
    versions: [
      {
        version: '2026-01-01',
        engine: {
          driver: 'onnx',
          task: 'embedding',
          model: MODEL,
          tokenizer: 'tokenizer.json',
          activation_ranges: ranges,
        },
        source: { kind: 'file', path: DIRECTORY },
      },
    ],
  };
  writeFileSync(join(catalogDir, `${ranges}.yaml`), JSON.stringify(entry));
}
await using server = await startServer({
  ...(values['data-dir'] !== undefined && { dataDir: values['data-dir'] }),
  env: {
    BAOBAB_LOG_LEVEL: 'info',
    BAOBAB_CATALOG_DIR: catalogDir,
    ...(values.processes !== undefined && {
      BAOBAB_ENGINES_ONNX_PROCESSES: values.processes,
      BAOBAB_ENGINES_ONNX_THREADS: '1',
    }),
    BAOBAB_LIMITS_EMBEDDING_RPM: '100000000',
    BAOBAB_LIMITS_EMBEDDING_TPM: '100000000000',
  },
});

const words = Number(values.words);
const texts = passages(256, { fewest: words, most: words });

async function embed(ranges: Ranges, input: readonly string[]): Promise<number> {
  const answer = await fetch(`${server.address}/v1/embeddings`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: slugOf(ranges), input }),
  });
  if (!answer.ok) throw new Error(`the service answered ${answer.status} ${await answer.text()}`);
  return ((await answer.json()) as { usage: { prompt_tokens: number } }).usage.prompt_tokens;
}

/** The service measures layouts when it is idle, on machines with several cores. */
async function waitForTrials(): Promise<void> {
  const file = join(server.dataDir, 'machine.json');
  const until = performance.now() + TRIAL_MS;
  const isMeasured = () => {
    const facts = existsSync(file) ? readFileSync(file, 'utf8') : '';
    return RANGES.every((ranges) => facts.includes(`layout.${slugOf(ranges)}`));
  };
  const isTried = cores >= 4 && values.processes === undefined;
  while (isTried && !isMeasured() && performance.now() < until) await new Promise((go) => setTimeout(go, 500));
  // A model that changes its layout loads again.
  await new Promise((go) => setTimeout(go, isTried ? 5_000 : 0));
  const lines = server.output().split('\n');
  for (const line of lines.filter((each) => /measured the layouts|model loaded/.test(each)))
    console.log(line.slice(0, 400));
}

async function startRaw({ processes, threads }: Shape, ranges: Ranges, tokens: number): Promise<ChildProcess[]> {
  const setup: RawSetup = {
    model: join(DIRECTORY, MODEL),
    threads,
    rowWiseRanges: ranges === 'token',
    sequences: Array.from({ length: 32 }, () => Array.from({ length: tokens }, (_, at) => 5 + at)),
  };
  const children = Array.from({ length: processes }, () =>
    fork(join(import.meta.dirname, 'embeddings/raw-runtime.ts')),
  );
  const ready = children.map((child) => once(child, 'message'));
  for (const child of children) child.send(setup);
  await Promise.all(ready);
  return children;
}

interface RawRun {
  tokensPerSecond: number;
  /** Processor time. */
  tokensPerMs: number;
}

async function runRaw(children: readonly ChildProcess[], tokenBudget: number): Promise<RawRun> {
  const pids = children.map(({ pid }) => pid);
  const before = timeOnCores(pids) ?? 0;
  const results = children.map(async (child) => ((await once(child, 'message')) as [RawResult])[0]);
  for (const child of children) child.send({ seconds, tokenBudget } satisfies RawOrder);
  const done = await Promise.all(results);
  const tokens = done.reduce((sum, each) => sum + each.tokens, 0);
  return {
    tokensPerSecond: done.reduce((sum, each) => sum + each.tokens / each.seconds, 0),
    tokensPerMs: tokens / ((timeOnCores(pids) ?? 0) - before),
  };
}

const client = fork(join(import.meta.dirname, 'embeddings/clients.ts'));
await once(client, 'message');
async function runService(ranges: Ranges, load: (typeof LOADS)[number], tokens: number): Promise<number> {
  const requests = Array.from({ length: 16 }, (_, at) => {
    const start = (at * load.inputs) % texts.length;
    const input = texts.slice(start, start + load.inputs);
    const body = JSON.stringify({ model: slugOf(ranges), input, encoding_format: values.encoding });
    return { body, tokens: input.length * tokens };
  });
  const { address, apiKey } = server;
  client.send({ address, apiKey, requests, concurrency: load.concurrency, seconds } satisfies ClientOrder);
  const [result] = (await once(client, 'message')) as [ClientResult];
  if ('error' in result) throw new Error(result.error);
  return result.tokens / result.seconds;
}

interface Usage extends ProcessorTimes {
  at: number;
}

/** Of the server, the clients and the engine processes of the model. */
function processorTimes(ranges: Ranges): Usage | undefined {
  const times = cpuTimes({ server: server.process.pid, clients: client.pid, engines: slugOf(ranges) });
  return times && { ...times, at: performance.now() };
}

function usedCores(before: Usage, after: Usage | undefined, inputsPerSecond: number): string {
  if (after === undefined) return '';
  const coresOf = (part: keyof ProcessorTimes) => (after[part] - before[part]) / (after.at - before.at);
  const of = (part: keyof ProcessorTimes) =>
    `${coresOf(part).toFixed(1)} (${((coresOf(part) * 1000) / inputsPerSecond).toFixed(2)} ms an input)`;
  return `; cores used: engines ${of('engines')}, server ${of('server')}, clients ${of('clients')}; engines waited for ${coresOf('enginesWaited').toFixed(1)}; idle ${coresOf('idle').toFixed(1)}`;
}

const name = ({ processes, threads }: Shape) => `${processes} × ${threads}`;
const report = createReport();

async function compare(ranges: Ranges): Promise<void> {
  const tokens = Math.round((await embed(ranges, texts)) / texts.length);
  console.log(`\nactivation ranges by ${ranges}, inputs of ${tokens} tokens, inputs/s:`);
  const raw: number[] = [];
  const service = LOADS.map((): number[] => []);
  for (let round = 0; round < rounds; round += 1) {
    let best = 0;
    for (const layout of layouts) {
      const children = await startRaw(layout, ranges, tokens);
      const runs: RawRun[] = [];
      for (const budget of TOKEN_BUDGETS) runs.push(await runRaw(children, budget));
      for (const child of children) child.kill('SIGKILL');
      best = Math.max(best, ...runs.map((run) => run.tokensPerSecond));
      const each = runs.map(
        ({ tokensPerSecond, tokensPerMs }, at) =>
          `${(tokensPerSecond / tokens).toFixed(0)} (${TOKEN_BUDGETS[at]} tokens a run, ${(tokens / tokensPerMs).toFixed(2)} ms an input)`,
      );
      console.log(`  onnxruntime ${name(layout)}: ${each.join(', ')}`);
    }
    raw.push(best);
    for (const [at, load] of LOADS.entries()) {
      const before = processorTimes(ranges);
      const rate = await runService(ranges, load, tokens);
      service[at]?.push(rate / best);
      const what = `${load.inputs} input(s), ${load.concurrency} at a time`;
      const shares = before === undefined ? '' : usedCores(before, processorTimes(ranges), rate / tokens);
      console.log(
        `  service, ${what}: ${(rate / tokens).toFixed(0)} (${(rate / best).toFixed(2)} of the best${shares})`,
      );
    }
  }
  for (const [at, load] of LOADS.entries()) {
    report.add({
      name: `ranges by ${ranges}, ${load.inputs} input(s) × ${load.concurrency} / best layout`,
      value: median(service[at] ?? []),
      atLeast: 0.9,
    });
  }
  report.add({ name: '  best layout, inputs/s', value: median(raw) / tokens, digits: 0 });
}

printConditions(`Embeddings on ${cores} cores, ${rounds} rounds of ${seconds} s`);
for (const ranges of RANGES) await embed(ranges, texts);
await waitForTrials();
for (const ranges of RANGES) await compare(ranges);
report.print();
client.kill();
