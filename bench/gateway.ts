/**
 * Measures what the service adds in front of a fake upstream on this machine, with keys, limits, metering and idempotency on. It is
 * compared with two proxies that do none of this: Fastify's own proxy plugin, and a pipe of node:http, the floor of the runtime. All servers alternate in one run, each alone on its core. Latency is measured with helper threads on any core, as
 * on any machine with several cores. For the service it is also measured with all threads on one core.
 *
 *   node bench/gateway.ts [--quick] [--seconds 3] [--rounds 9] [--before <another checkout>]
 *
 * `--before` also runs another checkout of the service, to show the effect of a change.
 */
import { execFile, execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import autocannon from 'autocannon';
import { startPacedLoads } from './gateway/paced-load.ts';
import {
  createReport,
  median,
  percentile,
  printConditions,
  processorSeconds,
  residentMb,
  stolenMs,
} from './measure.ts';
import { type Program, startProgram } from './program.ts';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    seconds: { type: 'string' },
    rounds: { type: 'string' },
    before: { type: 'string' },
  },
});
const seconds = Number(values.seconds ?? (values.quick ? 2 : 3));
const rounds = Number(values.rounds ?? (values.quick ? 3 : 9));
/** A round is steady if full load right before and right after it differs by less than this factor. */
const STEADY = 1.25;
/** If the load generator gets no core, the service does not get one either. */
const MOST_MISSED = 0.05;
/** If the host takes more of a core than this, p99 measures the host. */
const MOST_STOLEN = 0.01;
const MODEL = 'intfloat/e5-mistral-7b-instruct';
const KEY = 'bench-key-0123456789abcdef';
const HERE = import.meta.dirname;
/** V8 still compiles after ten seconds when it shares the core with the load generator. */
const WARM_UP_SECONDS = values.quick ? 5 : 15;
/** For the upstream: its delays would count against the servers under test. */
const QUIET = ['--min-semi-space-size=16', '--no-memory-reducer'];
const report = createReport();

/** One core for the server under test, the other for load generator and upstream, where the system supports it. */
const pin = (core: number, command: string[]): string[] =>
  process.platform === 'linux' ? ['taskset', '-c', String(core), ...command] : command;

const taskset = (...args: string[]): void => {
  if (process.platform === 'linux') execFileSync('taskset', args, { stdio: 'ignore' });
};
const pidOf = ({ process: { pid } }: Program): number => pid ?? 0;
/** The event loop stays on its core. Threads for the ledger and garbage collection run on any core. */
function freeHelpers(program: Program): void {
  taskset('-acp', '0,1', `${pidOf(program)}`);
  taskset('-cp', '0', `${pidOf(program)}`);
}
const toOneCore = (program: Program): void => taskset('-acp', '0', `${pidOf(program)}`);

// This process generates the load.
taskset('-acp', '1', `${process.pid}`);

const requestTo = (address: string) => ({
  url: `${address}/v1/embeddings`,
  headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
  body: JSON.stringify({ model: MODEL, input: 'What does the gateway cost?', encoding_format: 'base64' }),
});
const load = (address: string, options: { connections: number; seconds: number }) =>
  autocannon({
    ...requestTo(address),
    method: 'POST',
    connections: options.connections,
    duration: options.seconds,
  });

await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-bench-'));
await using upstream = await startProgram(pin(1, [process.execPath, ...QUIET, join(HERE, 'gateway/upstream.ts')]));
const config = join(directory.path, 'baobab.yaml');
await writeFile(
  config,
  [
    'log: { level: warn, format: json }',
    'limits: { embedding: { rpm: 100000000, tpm: 1000000000000 } }',
    'upstreams:',
    `  - { model: ${MODEL}, url: ${upstream.address}/v1, kind: openai, max_concurrency: 512 }`,
  ].join('\n'),
);
/** Same flags as `bin/baobab.mjs`. Older checkouts have none. */
async function startBaobab(checkout: string, data: string): Promise<Program> {
  const flagsFile = join(checkout, 'bin/serve-flags.mjs');
  const { SERVE_FLAGS = [], FILE_THREADS = '16' } = existsSync(flagsFile) ? await import(flagsFile) : {};
  const serve = [
    ...SERVE_FLAGS,
    join(checkout, 'packages/server/src/main.ts'),
    'serve',
    '--port',
    '0',
    '--config',
    config,
  ];
  return startProgram(pin(0, [process.execPath, ...serve]), {
    BAOBAB_DATA_DIR: join(directory.path, data),
    BAOBAB_FIRST_KEY: KEY,
    UV_THREADPOOL_SIZE: FILE_THREADS,
  });
}

const startProxy = (file: string) =>
  startProgram(pin(0, [process.execPath, join(HERE, 'gateway', file)]), { UPSTREAM: upstream.address });
await using proxy = await startProxy('bare-proxy.ts');
await using pipe = await startProxy('pipe.ts');
await using baobab = await startBaobab(join(HERE, '..'), 'data');
await using before = values.before === undefined ? undefined : await startBaobab(values.before, 'before');

printConditions('Gateway');
const sides: Record<string, Program> = { proxy, pipe, ...(before === undefined ? {} : { before }), baobab };

/** Stops the other servers meanwhile: they share the core and collect garbage when idle. */
async function alone<T>(program: Program, work: () => Promise<T>): Promise<T> {
  const others = Object.values(sides).filter((each) => each !== program);
  const signalOthers = (signal: 'SIGSTOP' | 'SIGCONT') => {
    if (process.platform !== 'win32') for (const other of others) other.process.kill(signal);
  };
  signalOthers('SIGSTOP');
  try {
    return await work();
  } finally {
    signalOthers('SIGCONT');
  }
}

for (const program of Object.values(sides)) {
  await alone(program, () => load(program.address, { connections: 32, seconds: WARM_UP_SECONDS }));
}

const rates = new Map<string, { perSecond: number; processorMs: number }[]>(
  Object.keys(sides).map((side) => [side, []]),
);
for (let round = 0; round < rounds; round += 1) {
  for (const [side, program] of Object.entries(sides)) {
    const pids = [pidOf(program)];
    const processor = processorSeconds(pids);
    const { requests, non2xx } = await alone(program, () => load(program.address, { connections: 32, seconds }));
    if (non2xx > 0) throw new Error(`${side}: ${non2xx} requests failed`);
    const processorMs = ((processorSeconds(pids) - processor) * 1000) / requests.total;
    rates.get(side)?.push({ perSecond: requests.average, processorMs });
  }
}
for (const [side, each] of rates)
  console.log(`${side}: ${each.map(({ perSecond }) => perSecond.toFixed(0)).join(', ')} requests/s`);
const of = (side: string, what: 'perSecond' | 'processorMs') =>
  median((rates.get(side) ?? []).map((each) => each[what]));
console.log('one core, 32 connections, medians');
console.table(
  Object.fromEntries(
    Object.keys(sides).map((side) => [
      side,
      {
        'requests/s': Math.round(of(side, 'perSecond')),
        'processor ms per request': Number(of(side, 'processorMs').toFixed(3)),
      },
    ]),
  ),
);
const ratio = (what: 'perSecond' | 'processorMs', left: string, right: string) =>
  median((rates.get(left) ?? []).map((each, round) => each[what] / (rates.get(right)?.[round]?.[what] ?? Number.NaN)));
report.add({ name: 'requests/s / bare proxy', value: ratio('perSecond', 'baobab', 'proxy'), atLeast: 0.6 });
report.add({ name: '  by processor time', value: ratio('processorMs', 'proxy', 'baobab') });
report.add({ name: 'requests/s / pipe of node:http', value: ratio('perSecond', 'baobab', 'pipe') });
report.add({ name: 'processor time / pipe of node:http', value: ratio('processorMs', 'baobab', 'pipe'), atMost: 2 });
if (before !== undefined) {
  report.add({ name: 'requests/s / before', value: ratio('perSecond', 'baobab', 'before') });
  report.add({ name: '  by processor time', value: ratio('processorMs', 'before', 'baobab') });
}

using pacedLoads = startPacedLoads();
const atPace = (program: Program, perSecond: number, forSeconds: number) =>
  alone(program, () => pacedLoads.send({ ...requestTo(program.address), perSecond, seconds: forSeconds }));
// The warm-up compiled code for other connections at another rate.
const usualHalf = Math.floor(of('baobab', 'perSecond') / 2);
for (const program of [proxy, pipe, baobab]) await atPace(program, usualHalf, WARM_UP_SECONDS);
// The service comes first, right after its full load was measured.
const paced: Record<string, { program: Program; arrange?: (program: Program) => void }> = {
  baobab: { program: baobab, arrange: freeHelpers },
  'baobab on one core': { program: baobab, arrange: toOneCore },
  upstream: { program: upstream },
  proxy: { program: proxy, arrange: freeHelpers },
  pipe: { program: pipe, arrange: freeHelpers },
};

/** Name of the measurement without a server, among the latencies of a round. */
const MACHINE = 'no server';
/** Lateness of a program that only wakes up at the same rate, on the servers' core. */
async function onlyWakes(perSecond: number): Promise<number[]> {
  const program = join(HERE, 'gateway/only-wakes.ts');
  const [file = '', ...args] = pin(0, [process.execPath, program, `${perSecond}`, `${seconds}`]);
  // Passing the upstream stops all servers, because it is not one of them.
  const { stdout } = await alone(upstream, () => promisify(execFile)(file, args, { maxBuffer: 100_000_000 }));
  return JSON.parse(stdout);
}

interface Round {
  /** Requests/s: the rate sent, and half of the service's full load right after it. */
  half: number;
  halfAfter: number;
  isSteady: boolean;
  /** Share of one core that the service used. */
  busy: number;
  /** The largest share of requests that the load generator skipped in one measurement. */
  missed: number;
  /** The most that the host took in one measurement, as a share of one core. */
  stolen: number;
  latencies: Map<string, { p50: number; p99: number }>;
}

/** Half of what one core can do now. Measured every round, because the machine's speed changes. */
async function halfLoad(): Promise<number> {
  toOneCore(baobab);
  const full = await alone(baobab, () => load(baobab.address, { connections: 32, seconds: 2 }));
  return Math.floor(full.requests.average / 2);
}

async function measureRound(): Promise<Round> {
  const half = await halfLoad();
  const round: Round = { half, halfAfter: half, isSteady: true, busy: 0, missed: 0, stolen: 0, latencies: new Map() };
  for (const [side, { program, arrange }] of Object.entries(paced)) {
    arrange?.(program);
    const pids = [pidOf(program)];
    const [processor, stolen, startedAt] = [processorSeconds(pids), stolenMs(), performance.now()];
    const { latencies: each, missed } = await atPace(program, half, seconds);
    const elapsedMs = performance.now() - startedAt;
    round.missed = Math.max(round.missed, missed);
    round.stolen = Math.max(round.stolen, (stolenMs() - stolen) / elapsedMs);
    round.latencies.set(side, { p50: percentile(each, 0.5), p99: percentile(each, 0.99) });
    if (side === 'baobab on one core') {
      round.busy = (processorSeconds(pids) - processor) / (elapsedMs / 1000);
    }
    if (side !== 'baobab') continue;
    round.halfAfter = await halfLoad();
    const late = await onlyWakes(half);
    round.latencies.set(MACHINE, { p50: percentile(late, 0.5), p99: percentile(late, 0.99) });
  }
  const keptSpeed = Math.abs(Math.log(round.halfAfter / half)) < Math.log(STEADY);
  round.isSteady = keptSpeed && round.missed < MOST_MISSED && round.stolen < MOST_STOLEN;
  return round;
}

const measured: Round[] = [];
while (measured.length < rounds) measured.push(await measureRound());
const steady = measured.filter(({ isSteady }) => isSteady);

const listed = (what: (round: Round) => string) =>
  measured.map((round) => `${what(round)}${round.isSteady ? '' : '*'}`).join(', ');
const busyPercent = median(measured.map(({ busy }) => busy)) * 100;
console.log(
  `half load: ${listed(({ half }) => `${half}`)} requests/s, evenly spaced; one core is ${busyPercent.toFixed(0)} % busy`,
);
console.log(`half of full load right after it: ${listed(({ halfAfter }) => `${halfAfter}`)} requests/s`);
console.log(
  `requests skipped because the load generator had no core: up to ${listed(({ missed }) => (missed * 100).toFixed(1))} %`,
);
console.log(`taken by the host: up to ${listed(({ stolen }) => (stolen * 100).toFixed(1))} % of a core`);
for (const side of [...Object.keys(paced), MACHINE]) {
  const shown = (quantile: 'p50' | 'p99') =>
    listed(({ latencies }) => (latencies.get(side)?.[quantile] ?? Number.NaN).toFixed(2));
  console.log(`  ${side}: p50 ${shown('p50')} ms; p99 ${shown('p99')} ms`);
}
console.log(
  `* unsteady: the machine's speed changed, the load generator had no core, or the host took cores; ${steady.length} of ${rounds} rounds were steady`,
);
const added = (side: string, quantile: 'p50' | 'p99', of = measured) => {
  const middle = (name: string) => median(of.map(({ latencies }) => latencies.get(name)?.[quantile] ?? Number.NaN));
  return middle(side) - middle('upstream');
};
report.add({ name: 'added latency at half load, p50', value: added('baobab', 'p50'), atMost: 1, unit: ' ms' });
report.add({ name: 'added latency at half load, p99', value: added('baobab', 'p99'), atMost: 5, unit: ' ms' });
// Printed only: shows how much of a bad result is caused by the machine.
if (steady.length > 0) {
  report.add({ name: '  in steady rounds, p50', value: added('baobab', 'p50', steady), unit: ' ms' });
  report.add({ name: '  in steady rounds, p99', value: added('baobab', 'p99', steady), unit: ' ms' });
}
for (const [side, name] of [
  ['baobab on one core', 'service with all its threads on one core'],
  ['proxy', 'bare proxy'],
  ['pipe', 'pipe of node:http'],
] as const) {
  report.add({ name: `  ${name}, p50`, value: added(side, 'p50'), unit: ' ms' });
  report.add({ name: `  ${name}, p99`, value: added(side, 'p99'), unit: ' ms' });
}

// Printed only: no server can answer before its machine wakes it.
const lateness = median(measured.map(({ latencies }) => latencies.get(MACHINE)?.p99 ?? Number.NaN));
report.add({ name: '  lateness of a program that only wakes up at that rate, p99', value: lateness, unit: ' ms' });

/** Size of V8's old space. Only full collections clean it, and they delay requests. */
async function oldObjectBytes(): Promise<number> {
  const metrics = await fetch(`${baobab.address}/metrics`, { headers: { authorization: `Bearer ${KEY}` } });
  const [, bytes] = /^baobab_nodejs_heap_space_size_used_bytes\{space="old"\} (\S+)/m.exec(await metrics.text()) ?? [];
  return Number(bytes);
}

if (!values.quick) {
  const pid = pidOf(baobab);
  toOneCore(baobab);
  // Full load before both readings, so they are comparable.
  await load(baobab.address, { connections: 32, seconds: 10 });
  const early = residentMb(pid);
  const leftBehind: number[] = [];
  let requests = 0;
  while (requests < 100_000) {
    const oldBytes = await oldObjectBytes();
    const { total } = (await load(baobab.address, { connections: 32, seconds: 10 })).requests;
    requests += total;
    leftBehind.push(((await oldObjectBytes()) - oldBytes) / total);
  }
  const late = residentMb(pid);
  console.log(`${requests} more requests: ${early.toFixed(0)} → ${late.toFixed(0)} MB`);
  report.add({ name: 'memory after 100 000 requests / before', value: late / early, atMost: 1.15 });
  // Negative if there was a full collection.
  const bytes = median(leftBehind.filter((each) => each > 0));
  report.add({ name: 'bytes per request that only a full collection frees', value: bytes, digits: 0 });
}
report.print();
