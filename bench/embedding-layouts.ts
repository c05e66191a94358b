/**
 * Compares POST /v1/embeddings on all cores, in the layout that the service chooses, with onnxruntime alone in every layout of processes
 * and threads: the newest bundled model, inputs of equal length in tokens on both sides. The sides alternate. It needs no network and no
 * downloaded weights.
 *
 *   node bench/embedding-layouts.ts [--quick] [--rounds 3] [--seconds 4] [--warm-up 2] [--words 113] [--layouts 16x1,8x2]
 *     [--loads 64x4,64x16,1x64,1x256] [--data-dir dir] [--encoding float] [--processes 15] [--ranges batch,token] [--niceness 0,5]
 *     [--version 2026-11-19] [--raw-variable NAME=value] [--budgets 256]
 *
 * Clients ask for base64 unless told otherwise, as the official SDKs do. What is answered in `seconds` after the warm-up counts. With
 * `--niceness`, the engine processes get these priorities in turns. On Linux it also prints where the processor time went.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { loadTokenizer } from '../packages/engines/src/onnx/tokenizer/tokenizer.ts';
import { startServer } from '../test/acceptance/start-server.ts';
import type { ClientOrder, ClientResult } from './embeddings/clients.ts';
import { cpuTimes, type ProcessorTimes, setEnginePriority, timeOnCores } from './embeddings/processor-time.ts';
import type { RawOrder, RawResult, RawSetup } from './embeddings/raw-runtime.ts';
import { passages } from './embeddings/texts.ts';
import { createReport, median, percentile, printConditions } from './measure.ts';

const cores = availableParallelism();
const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    'warm-up': { type: 'string', default: '2' },
    words: { type: 'string', default: '113' },
    layouts: { type: 'string' },
    /** Inputs of one request, and requests at a time. */
    loads: { type: 'string', default: '64x4,64x16,1x64,1x256' },
    'data-dir': { type: 'string' },
    encoding: { type: 'string', default: 'base64' },
    /** Of the service, with one thread each. Its own choice otherwise. */
    processes: { type: 'string' },
    ranges: { type: 'string', default: 'batch,token' },
    /** Tokens of one run of onnxruntime alone: one, two and four inputs of the usual length. */
    budgets: { type: 'string', default: '128,256,512' },
    niceness: { type: 'string' },
    /** Such as GLIBC_TUNABLES=glibc.malloc.hugetlb=1: runs onnxruntime alone also with these. */
    'raw-variable': { type: 'string', multiple: true },
    /** Of the model. */
    version: { type: 'string' },
  },
});
const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
const seconds = Number(values.seconds ?? (values.quick ? 1 : 4));
const warmUpSeconds = Number(values['warm-up']);
const VERSIONS = join(import.meta.dirname, '../models/embed-multilingual');
const newest = readdirSync(VERSIONS, { withFileTypes: true }).filter((each) => each.isDirectory());
const DIRECTORY = join(
  VERSIONS,
  values.version ??
    newest
      .map(({ name }) => name)
      .toSorted()
      .at(-1) ??
    '',
);
const MODEL = 'model_quantized.onnx';
type Ranges = 'batch' | 'token';
const RANGES = values.ranges.split(',') as Ranges[];
const TOKEN_BUDGETS = values.budgets.split(',').map(Number);
const LOADS = values.loads
  .split(',')
  .map((each) => each.split('x').map(Number))
  .map(([inputs = 1, concurrency = 1]) => ({ inputs, concurrency }));
/** Undefined: as the service sets it. */
const NICENESS = values.niceness?.split(',').map(Number) ?? [undefined];
const PROBE_EVERY_MS = 50;
const TRIAL_MS = 60_000;

interface Shape {
  processes: number;
  threads: number;
  /** Environment variables. */
  variables?: Readonly<Record<string, string>>;
}

const layouts: Shape[] = (values.layouts ?? defaultLayouts())
  .split(',')
  .map((each) => each.split('x').map(Number))
  .map(([processes = 1, threads = 1]) => ({ processes, threads }));
/** The first layout with more variables, for comparison only. */
const tuned: Shape | undefined = values['raw-variable'] && {
  ...(layouts[0] as Shape),
  variables: Object.fromEntries(values['raw-variable'].map((each) => each.split(/=(.*)/s, 2))),
};

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
const texts = await textsOfOneLength(256);

/** Passages with so many words, of those with the most frequent number of tokens. */
async function textsOfOneLength(count: number): Promise<string[]> {
  const { encode, template } = await loadTokenizer(join(DIRECTORY, 'tokenizer.json'));
  const all = passages(count * 32, { fewest: words, most: words });
  const byLength = Map.groupBy(all, (text) => encode(text, template.single).length);
  const [most = []] = [...byLength.values()].toSorted((left, right) => right.length - left.length);
  return most.slice(0, count);
}

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
  while (isTried && !isMeasured() && performance.now() < until) await sleep(500);
  // A model that changes its layout loads again.
  await sleep(isTried ? 5_000 : 0);
  const lines = server.output().split('\n');
  for (const line of lines.filter((each) => /measured the layouts|model loaded/.test(each)))
    console.log(line.slice(0, 400));
}

async function startRaw({ processes, threads, variables }: Shape, ranges: Ranges, tokens: number) {
  const setup: RawSetup = {
    model: join(DIRECTORY, MODEL),
    threads,
    rowWiseRanges: ranges === 'token',
    sequences: Array.from({ length: 32 }, () => Array.from({ length: tokens }, (_, at) => 5 + at)),
  };
  const children = Array.from({ length: processes }, () =>
    fork(join(import.meta.dirname, 'embeddings/raw-runtime.ts'), { env: { ...process.env, ...variables } }),
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
interface ServiceRun {
  tokensPerSecond: number;
  /** Where the processor time went while answers counted. */
  usage: readonly [Usage | undefined, Usage | undefined];
  /** Latencies of small requests beside the load. */
  probes: readonly number[];
}

async function runService(ranges: Ranges, load: (typeof LOADS)[number], tokens: number): Promise<ServiceRun> {
  const requests = Array.from({ length: 16 }, (_, at) => {
    const start = (at * load.inputs) % texts.length;
    const input = texts.slice(start, start + load.inputs);
    const body = JSON.stringify({ model: slugOf(ranges), input, encoding_format: values.encoding });
    return { body, tokens: input.length * tokens };
  });
  const { address, apiKey } = server;
  const { concurrency } = load;
  const order: ClientOrder = { address, apiKey, requests, concurrency, seconds, warmUpSeconds };
  const answer = once(client, 'message') as Promise<[ClientResult]>;
  client.send(order);
  await sleep(warmUpSeconds * 1000);
  const before = processorTimes(ranges);
  const probes = await probe(performance.now() + seconds * 1000);
  const after = processorTimes(ranges);
  const [result] = await answer;
  if ('error' in result) throw new Error(result.error);
  return { tokensPerSecond: result.tokens / result.seconds, usage: [before, after], probes };
}

async function probe(until: number): Promise<number[]> {
  const latencies: number[] = [];
  while (performance.now() < until) {
    const began = performance.now();
    await (await fetch(`${server.address}/healthz`)).arrayBuffer();
    latencies.push(performance.now() - began);
    await sleep(Math.min(PROBE_EVERY_MS, Math.max(0, until - performance.now())));
  }
  return latencies;
}

interface Usage extends ProcessorTimes {
  at: number;
}

/** Of the server, the clients and the engine processes of the model. */
function processorTimes(ranges: Ranges): Usage | undefined {
  const times = cpuTimes({ server: server.process.pid, clients: client.pid, engines: slugOf(ranges) });
  return times && { ...times, at: performance.now() };
}

function usedCores([before, after]: ServiceRun['usage'], inputsPerSecond: number): string {
  if (before === undefined || after === undefined) return '';
  const coresOf = (part: keyof ProcessorTimes) => (after[part] - before[part]) / (after.at - before.at);
  const of = (part: keyof ProcessorTimes) =>
    `${coresOf(part).toFixed(1)} (${((coresOf(part) * 1000) / inputsPerSecond).toFixed(2)} ms an input)`;
  return `; cores used: engines ${of('engines')}, server ${of('server')}, clients ${of('clients')}; engines waited for ${coresOf('enginesWaited').toFixed(1)}; idle ${coresOf('idle').toFixed(1)}`;
}

const describe = ({ inputs, concurrency }: (typeof LOADS)[number], niceness: number | undefined) =>
  `${inputs} input(s) × ${concurrency}${niceness === undefined ? '' : `, niceness ${niceness}`}`;
const name = ({ processes, threads, variables }: Shape) =>
  `${processes} × ${threads}${variables === undefined ? '' : ', with more variables'}`;
const report = createReport();

/** Tokens a second with the best size of a run. */
async function bestRaw(layout: Shape, ranges: Ranges, tokens: number): Promise<number> {
  const children = await startRaw(layout, ranges, tokens);
  const runs: RawRun[] = [];
  for (const budget of TOKEN_BUDGETS) runs.push(await runRaw(children, budget));
  for (const child of children) child.kill('SIGKILL');
  const each = runs.map(
    ({ tokensPerSecond, tokensPerMs }, at) =>
      `${(tokensPerSecond / tokens).toFixed(0)} (${TOKEN_BUDGETS[at]} tokens a run, ${(tokens / tokensPerMs).toFixed(2)} ms an input)`,
  );
  console.log(`  onnxruntime ${name(layout)}: ${each.join(', ')}`);
  return Math.max(...runs.map((run) => run.tokensPerSecond));
}

async function compare(ranges: Ranges): Promise<void> {
  const tokens = Math.round((await embed(ranges, texts)) / texts.length);
  console.log(`\nactivation ranges by ${ranges}, inputs of ${tokens} tokens, inputs/s:`);
  const raw: number[] = [];
  const withVariables: number[] = [];
  const sides = LOADS.flatMap((load) => NICENESS.map((niceness) => ({ load, niceness, ratios: [] as number[] })));
  for (let round = 0; round < rounds; round += 1) {
    let best = 0;
    for (const layout of layouts) best = Math.max(best, await bestRaw(layout, ranges, tokens));
    raw.push(best);
    if (tuned !== undefined) withVariables.push(await bestRaw(tuned, ranges, tokens));
    for (const { load, niceness, ratios } of sides) {
      if (niceness !== undefined) setEnginePriority({ server: server.process.pid, engines: slugOf(ranges) }, niceness);
      const { tokensPerSecond, usage, probes } = await runService(ranges, load, tokens);
      ratios.push(tokensPerSecond / best);
      const rate = tokensPerSecond / tokens;
      const [p50, p99] = [0.5, 0.99].map((share) => percentile(probes, share).toFixed(1));
      console.log(
        `  service, ${describe(load, niceness)}: ${rate.toFixed(0)} (${(tokensPerSecond / best).toFixed(2)} of the best${usedCores(usage, rate)}); small requests p50 ${p50}, p99 ${p99} ms`,
      );
    }
  }
  for (const { load, niceness, ratios } of sides) {
    report.add({
      name: `ranges by ${ranges}, ${describe(load, niceness)} / best layout`,
      value: median(ratios),
      atLeast: 0.9,
    });
  }
  report.add({ name: '  best layout, inputs/s', value: median(raw) / tokens, digits: 0 });
  if (tuned === undefined) return;
  report.add({ name: `  ${name(tuned)}`, value: median(withVariables) / tokens, digits: 0 });
}

printConditions(`Embeddings on ${cores} cores, ${rounds} rounds of ${seconds} s, ${DIRECTORY}`);
for (const ranges of RANGES) await embed(ranges, texts);
await waitForTrials();
for (const ranges of RANGES) await compare(ranges);
report.print();
client.kill();
