/**
 * Measures one and several servers beside other gateways, all in front of the same upstream with a fixed small chat answer, in turns in
 * one run, each gateway on one core. Baobab checks keys and limits and makes a ledger row durable for each request; the others run without
 * accounting, as fast as they can, and Bifrost also with its own.
 *
 *   node bench/replicas.ts [--quick] [--parts peers,streams,stores,scale,batches] [--rounds 7] [--seconds 3] [--workers 1,2,4] [--before <checkout>]
 *
 * Peers are not part of this repository. `--bifrost <program>` or BENCH_BIFROST names Bifrost's HTTP program, `--litellm <venv>` or
 * BENCH_LITELLM a Python environment with `litellm[proxy]`. docs/performance.md says how to get them. PostgreSQL and Redis are
 * started as for the tests, but PostgreSQL syncs to the disk.
 */
import { existsSync } from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { freePort } from '../test/fixtures/free-port.ts';
import { createReport, median, percentile, printConditions, processorSeconds, residentMb } from './measure.ts';
import { startProgram } from './program.ts';
import { measureBatches } from './replicas/batches.ts';
import { pinned, pinProcess, planCores } from './replicas/cores.ts';
import { startLoad } from './replicas/load.ts';
import { findPeer, type Side, startBaobab, startBifrost, startLiteLlm } from './replicas/sides.ts';
import { startStores } from './replicas/stores.ts';
import { createTurns } from './replicas/turns.ts';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    parts: { type: 'string', default: 'peers,streams,stores,scale,batches' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    workers: { type: 'string', default: '1,2,4' },
    bifrost: { type: 'string', default: process.env.BENCH_BIFROST },
    litellm: { type: 'string', default: process.env.BENCH_LITELLM },
    before: { type: 'string' },
  },
});
const rounds = Number(values.rounds ?? (values.quick ? 3 : 7));
const seconds = Number(values.seconds ?? (values.quick ? 2 : 3));
const parts = values.parts.split(',');
/** A server is warm when the rates of two successive windows differ by less: V8 still compiles after many seconds. */
const STEADY = 0.03;
const WINDOW_SECONDS = values.quick ? 2 : 3;
const MOST_WARM_UP_SECONDS = values.quick ? 12 : 40;
const CONNECTIONS = 16;
const STREAMS = 1000;
const WARM_UP_ROUNDS = 4;
const STREAMS_START_MS = 1000;
/** How long the engine takes for a line of a batch. */
const LINE_MS = 100;
const UPSTREAM_FLAGS = ['--min-semi-space-size=16', '--no-memory-reducer'];

printConditions('Replicas');
const layout = planCores();
// PostgreSQL and Redis inherit the cores of this process.
pinProcess(layout.stores, process.pid);
await using resources = new AsyncDisposableStack();
const directory = resources.use(await mkdtempDisposable(join(tmpdir(), 'baobab-bench-')));
const port = await freePort();
const upstreamProgram = [process.execPath, ...UPSTREAM_FLAGS, join(import.meta.dirname, 'replicas/upstream.ts')];
for (let source = 0; source < layout.sources; source += 1) {
  resources.use(await startProgram(pinned(layout.upstream, [...upstreamProgram, `${port}`])));
}
const upstream = `http://127.0.0.1:${port}`;
const load = resources.use(startLoad(layout.sources, layout.load));
const turns = createTurns(load);
const report = createReport();
const allCores = `0-${availableParallelism() - 1}`;
const common = { directory: directory.path, upstream, layout };

/** Runs each side until its rate no longer rises. */
async function warmUp(sides: readonly Side[], connections = CONNECTIONS): Promise<void> {
  for (const side of sides) {
    const { url, headers, body } = side;
    const rates: number[] = [];
    const isSteady = () => {
      const [before, last] = rates.slice(-2);
      return before !== undefined && last !== undefined && Math.abs(last / before - 1) < STEADY;
    };
    await turns.alone(side, sides, async () => {
      while (!isSteady() && rates.length * WINDOW_SECONDS < MOST_WARM_UP_SECONDS) {
        const { perSecond } = await load.closed({ url, headers, body, connections, seconds: WINDOW_SECONDS });
        rates.push(perSecond);
      }
    });
    console.log(
      `${side.name}, warm-up with ${connections} connections: ${rates.map((rate) => rate.toFixed(0)).join(' ')} requests/s`,
    );
  }
}

/** With keys, limits, budgets and its log in SQLite. */
const BIFROST_ACCOUNTING = 'Bifrost, accounting';

/** Gateways on one core each, without shared storage. */
async function startPeers({
  withLiteLlm = false,
  withAccounting = false,
} = {}): Promise<{ sides: Side[]; stop: AsyncDisposableStack }> {
  const stop = new AsyncDisposableStack();
  const sides = [stop.use(await startBaobab({ ...common, name: 'Baobab' }))];
  if (values.before !== undefined) {
    sides.push(stop.use(await startBaobab({ ...common, name: 'before', root: values.before })));
  }
  const bifrost = findPeer('Bifrost', values.bifrost, '--bifrost or BENCH_BIFROST');
  if (bifrost !== undefined) {
    sides.push(stop.use(await startBifrost(bifrost, { ...common, name: 'Bifrost' })));
    const accounting = { ...common, name: BIFROST_ACCOUNTING, accounting: true };
    if (withAccounting) sides.push(stop.use(await startBifrost(bifrost, accounting)));
  }
  if (withLiteLlm) {
    const litellm = findPeer('LiteLLM', values.litellm, '--litellm or BENCH_LITELLM');
    if (litellm !== undefined) sides.push(stop.use(await startLiteLlm(litellm, common)));
  }
  await warmUp(sides);
  return { sides, stop };
}

/** Without a disk, the ledger's synced writes take no time: shows how much of the latency is the disk. */
const MEMORY_DISK = '/dev/shm';
const WITHOUT_DISK = 'Baobab without a disk';

async function measurePeers(): Promise<void> {
  const { sides, stop } = await startPeers({ withLiteLlm: true, withAccounting: true });
  await using _ = stop;
  if (existsSync(MEMORY_DISK)) {
    const memory = stop.use(await mkdtempDisposable(join(MEMORY_DISK, 'baobab-bench-')));
    sides.push(stop.use(await startBaobab({ ...common, directory: memory.path, name: WITHOUT_DISK })));
    await warmUp(sides.slice(-1));
  }
  const many = await turns.run({ sides, connections: CONNECTIONS, rounds, seconds });
  many.print(`one core each, ${CONNECTIONS} connections`);
  await warmUp(sides, 1);
  const one = await turns.run({ sides, connections: 1, rounds, seconds });
  one.print('one core each, one connection');
  console.log('\nmemory after it, MB');
  const memory = ({ pids }: Side) => Math.round(pids().reduce((sum, pid) => sum + residentMb(pid), 0));
  console.table(Object.fromEntries(sides.map((side) => [side.name, memory(side)])));
  if (one.has(WITHOUT_DISK) && one.has('Bifrost')) {
    const value = one.ratio('p99', WITHOUT_DISK, 'Bifrost');
    report.add({ name: 'p99 with one connection, without a disk / Bifrost', value });
  }
  for (const peer of ['Bifrost', BIFROST_ACCOUNTING, 'LiteLLM', 'before']) {
    if (!many.has(peer)) continue;
    const goal = peer === 'Bifrost' ? { atLeast: 2 } : {};
    const latencyGoal = peer === 'Bifrost' ? { atMost: 1 } : {};
    report.add({ name: `requests/s / ${peer}`, value: many.ratio('perSecond', 'Baobab', peer), ...goal });
    report.add({ name: '  by processor time', value: many.ratio('processorMs', peer, 'Baobab') });
    report.add({ name: `p50 with one connection / ${peer}`, value: one.ratio('p50', 'Baobab', peer), ...latencyGoal });
    report.add({ name: `p99 with one connection / ${peer}`, value: one.ratio('p99', 'Baobab', peer), ...latencyGoal });
  }
}

/** 1 000 streams that start within a second, and health probes meanwhile. */
async function measureStreams(): Promise<void> {
  const { sides, stop } = await startPeers();
  await using _ = stop;
  const figures = [
    'first word, median',
    'first word, p99',
    'worst probe',
    'processor time',
    'until all ended',
  ] as const;
  type Figures = Record<(typeof figures)[number], number>;
  const results = new Map<string, Figures[]>(sides.map(({ name }) => [name, []]));
  const start = (side: Side) => {
    const { url, healthUrl, headers, streamBody: body } = side;
    const job = { url, healthUrl, headers, body, count: STREAMS, overMs: STREAMS_START_MS };
    return turns.alone(side, sides, () => load.streams(job));
  };
  // V8 compiles the code of streams in the first rounds; the first one is what a server does right after its start.
  for (let round = 0; round < WARM_UP_ROUNDS; round += 1) {
    for (const side of sides) {
      const { firstWords, probes } = await start(side);
      if (round > 0) continue;
      const worst = Math.max(...probes).toFixed(0);
      console.log(`${side.name}, first time: first word ${median(firstWords).toFixed(0)} ms, worst probe ${worst} ms`);
    }
  }
  for (let round = 0; round < rounds; round += 1) {
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      const processor = processorSeconds(side.pids());
      const { firstWords, probes, seconds: untilEnd } = await start(side);
      results.get(side.name)?.push({
        'first word, median': median(firstWords),
        'first word, p99': percentile(firstWords, 0.99),
        'worst probe': Math.max(...probes),
        'processor time': (processorSeconds(side.pids()) - processor) * 1000,
        'until all ended': untilEnd * 1000,
      });
    }
  }
  console.log(`\n${STREAMS} streams within ${STREAMS_START_MS} ms, medians of ${rounds} rounds and each round, ms`);
  const each = (side: string, figure: keyof Figures) => (results.get(side) ?? []).map((round) => round[figure]);
  const shown = (numbers: number[]) =>
    `${median(numbers).toFixed(0)} (${numbers.map((ms) => ms.toFixed(0)).join(' ')})`;
  console.table(
    Object.fromEntries(
      sides.map(({ name }) => [name, Object.fromEntries(figures.map((figure) => [figure, shown(each(name, figure))]))]),
    ),
  );
  for (const peer of ['Bifrost', 'before']) {
    if (!results.has(peer)) continue;
    for (const figure of figures.slice(0, 4)) {
      const others = each(peer, figure);
      const ratio = median(each('Baobab', figure).map((ms, round) => ms / (others[round] ?? Number.NaN)));
      report.add({
        name: `${STREAMS} streams: ${figure} / ${peer}`,
        value: ratio,
        ...(peer === 'Bifrost' && figure !== 'processor time' ? { atMost: 1 } : {}),
      });
    }
  }
}

/** What PostgreSQL and Redis on this machine add to a request. */
async function measureStores(): Promise<void> {
  await using stores = await startStores();
  await using stop = new AsyncDisposableStack();
  const start = async (options: Parameters<typeof startBaobab>[0]) => stop.use(await startBaobab(options));
  const [onlyPostgres, both] = [await stores.next(), await stores.next()];
  const sides = [
    await start({ ...common, name: 'SQLite, memory' }),
    await start({ ...common, name: 'PostgreSQL, memory', store: onlyPostgres.store }),
    await start({ ...common, name: 'PostgreSQL, Redis', ...both }),
  ];
  await warmUp(sides, 1);
  const one = await turns.run({ sides, connections: 1, rounds, seconds });
  one.print('where ledger and counters are, one connection');
  const many = await turns.run({ sides, connections: CONNECTIONS, rounds, seconds });
  many.print(`where ledger and counters are, ${CONNECTIONS} connections`);
  const added = one.difference('p50', 'PostgreSQL, Redis', 'SQLite, memory');
  report.add({ name: 'PostgreSQL and Redis add at p50', value: added, atMost: 2, unit: ' ms' });
  const postgres = one.difference('p50', 'PostgreSQL, memory', 'SQLite, memory');
  report.add({ name: '  PostgreSQL alone', value: postgres, unit: ' ms' });
  const ratio = many.ratio('perSecond', 'PostgreSQL, Redis', 'SQLite, memory');
  report.add({ name: 'requests/s with PostgreSQL and Redis / SQLite', value: ratio });
}

/** Several workers on one port, each on its core. */
async function measureScale(): Promise<void> {
  const spare = availableParallelism() - 1;
  const counts = values.workers.split(',').map(Number);
  const measured = counts.filter((count) => count <= Math.max(1, spare - 3));
  const left = counts.filter((count) => !measured.includes(count));
  if (left.length > 0) {
    console.log(
      `Not measured: ${left.join(' and ')} workers. Each needs a core of its own, and load, upstream and stores need some.`,
    );
  }
  await using stores = await startStores();
  await using stop = new AsyncDisposableStack();
  const sides: Side[] = [];
  for (const workers of measured) {
    sides.push(
      stop.use(await startBaobab({ ...common, name: `${workers} workers`, workers, ...(await stores.next()) })),
    );
  }
  // The kernel spreads connections by a hash, so few of them are spread unevenly.
  const connections = CONNECTIONS * Math.max(...measured) * 2;
  await warmUp(sides, connections);
  const results = await turns.run({ sides, connections, rounds, seconds });
  results.print(`PostgreSQL and Redis, one core for each worker, ${connections} connections`);
  for (const workers of measured.slice(1)) {
    const value = results.ratio('perSecond', `${workers} workers`, `${measured[0]} workers`);
    report.add({ name: `requests/s of ${workers} workers / ${measured[0]}`, value });
  }
  const busiest = sides.at(-1) as Side;
  const before = await stores.work();
  const { url, headers, body } = busiest;
  const { latencies, perSecond } = await load.closed({ url, headers, body, connections, seconds });
  const after = await stores.work();
  const each = (what: keyof typeof after) => (after[what] - before[what]) / latencies.length;
  console.log(`\nfor each request at ${perSecond.toFixed(0)} requests/s of ${busiest.name}`);
  console.table({
    PostgreSQL: {
      calls: `${each('commits').toFixed(3)} commits`,
      'processor ms': each('postgresSeconds') * 1000,
      'log bytes': Math.round(each('walBytes')),
      'stored bytes': Math.round(each('databaseBytes')),
    },
    Redis: { calls: `${each('redisCalls').toFixed(2)} scripts`, 'processor ms': each('redisSeconds') * 1000 },
  });
}

const MEASUREMENTS: Record<string, () => Promise<void>> = {
  peers: measurePeers,
  streams: measureStreams,
  stores: measureStores,
  scale: measureScale,
  batches: () =>
    measureBatches({
      common: { ...common, layout: { ...layout, servers: () => allCores } },
      lines: values.quick ? 2_000 : 10_000,
      rounds: Math.min(rounds, 3),
      upstreamCommand: pinned(layout.upstream, upstreamProgram),
      answerMs: LINE_MS,
      report,
    }),
};
for (const part of parts) {
  const measure = MEASUREMENTS[part];
  if (measure === undefined)
    throw new Error(`unknown part '${part}', known are ${Object.keys(MEASUREMENTS).join(', ')}`);
  console.log(`\n== ${part} ==`);
  await measure();
}
report.print();
