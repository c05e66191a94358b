/**
 * Runs mixed load on the real server for a long time, with a fake upstream and one local model. At intervals the load pauses, and
 * the clients' results, the ledger, the usage report and the Prometheus counters are compared, to the token and the
 * nano-dollar. At the end, memory must be what it was after the first minutes: memory in use under load, and that of the process at
 * rest after a full collection. Resident memory under load is printed but not checked: how much garbage
 * there is depends on when V8 last collected, which says nothing about leaks.
 *
 *   node scripts/soak.ts [--minutes 30] [--clients 8] [--pause-ms 250]
 */
import { mkdtempDisposable, readdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { childrenOf, median, printConditions, residentMb } from '../bench/measure.ts';
import { startServer } from '../test/acceptance/start-server.ts';
import { startFakeUpstream } from '../test/fixtures/fake-upstream.ts';
import { accountsOf, differences, readCounters, readLedger, readMetrics, readUsage } from './soak/books.ts';
import { createClients, MODELS } from './soak/clients.ts';
import { INSPECTOR_ENV, residentAtRestMb } from './soak/collection.ts';
import { createReceipts } from './soak/receipts.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    clients: { type: 'string', default: '8' },
    'pause-ms': { type: 'string', default: '250' },
  },
});
const totalMs = Number(values.minutes) * 60_000;
const pauseMs = Number(values['pause-ms']);
const CHECKS = 10;
const SAMPLES = 120;
const DISCOUNT_PERCENT = 50;
/** Rows of cancelled streams are written a moment after the client has left. */
const SETTLE_MS = 10_000;

const upstream = await startFakeUpstream('openai', {
  words: Array.from({ length: 12 }, (_, word) => ` word${word}`),
  chunkDelayMs: 4,
  contextLength: 100_000,
});
await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-soak-'));
const config = join(directory.path, 'soak.yaml');
const limits = '{ rpm: 100000000, tpm: 1000000000000 }';
await writeFile(
  config,
  [
    'log: { level: warn, format: json }',
    `limits: { chat: ${limits}, embedding: ${limits}, rerank: ${limits} }`,
    `batches: { discount_percent: ${DISCOUNT_PERCENT} }`,
    'upstreams:',
    ...[MODELS.chat, MODELS.embedding, MODELS.rerank].map(
      (model) => `  - { model: ${model}, url: ${upstream.url}, kind: openai, max_concurrency: 64 }`,
    ),
  ].join('\n'),
);
await using server = await startServer({ args: ['--config', config], env: INSPECTOR_ENV });
const { address, apiKey, dataDir } = server;
const pid = server.process.pid ?? 0;
const receipts = createReceipts();
server.process.once('exit', (code, signal) => {
  if (elapsed() < totalMs) console.log(`the server ended with ${signal ?? code}:\n${server.output().slice(-3_000)}`);
});
const clients = createClients({ address, apiKey, receipts, batchDiscountPercent: DISCOUNT_PERCENT });

/** Each with its share of the load. */
const MIX: [() => Promise<void>, number][] = [
  [clients.local, 25],
  [clients.remote, 20],
  [clients.rerank, 10],
  [clients.chat, 10],
  [clients.stream, 10],
  [clients.cancelledStream, 12],
  [clients.idempotent, 8],
  [clients.refused, 2],
  [clients.usage, 2],
  [clients.batch, 1],
];
const shares = MIX.reduce((sum, [, share]) => sum + share, 0);
function choose(): () => Promise<void> {
  let left = Math.random() * shares;
  for (const [work, share] of MIX) {
    left -= share;
    if (left < 0) return work;
  }
  return clients.remote;
}

// --- pausing and comparing ---

const startedAt = performance.now();
const elapsed = () => performance.now() - startedAt;
let gate = Promise.resolve();
/** After the first minutes and at the end. */
const atRestMb: number[] = [];
let busy = 0;

async function client(): Promise<void> {
  while (elapsed() < totalMs) {
    await gate;
    busy += 1;
    await choose()().catch((error) => receipts.problem(String(error)));
    busy -= 1;
    await sleep(Math.random() * 2 * pauseMs);
  }
}

async function compareAll(): Promise<string[]> {
  // The report first: it moves rows from the journal to the ledger.
  const { accounts: reported, totals } = await readUsage(address, apiKey);
  const ledger = readLedger(dataDir);
  const accounts = accountsOf(ledger);
  const counted = readCounters(await readMetrics(address));
  const sum = [...accounts.values()].reduce((total, { costNanoUsd }) => total + costNanoUsd, 0);
  return [
    ...receipts.compare(ledger),
    ...differences('ledger', accounts, 'usage', reported),
    ...differences('ledger', accounts, 'Prometheus', counted),
    ...(sum === totals.costNanoUsd ? [] : [`totals: ledger ${sum}, usage ${totals.costNanoUsd} nano-USD`]),
  ];
}

/** Pauses all clients, waits until no request is running, and compares. Measures memory if requested. */
async function check({ measureMemory }: { measureMemory: boolean }): Promise<string[]> {
  const { promise, resolve } = Promise.withResolvers<void>();
  gate = promise;
  while (busy > 0) await sleep(50);
  const deadline = performance.now() + SETTLE_MS;
  let found = await compareAll();
  while (found.length > 0 && performance.now() < deadline) {
    await sleep(200);
    found = await compareAll();
  }
  upstream.requests.length = 0;
  if (measureMemory) atRestMb.push(await residentAtRestMb(server));
  resolve();
  return found;
}

// --- memory ---

interface Sample {
  atMs: number;
  serverMb: number;
  /** Without pages that V8 holds but does not use, which depend on its last collection. */
  serverInUseMb: number;
  heapMb: number;
  enginesMb: number;
  handles: number;
  descriptors: number;
}

async function sample(): Promise<Sample> {
  const metrics = await readMetrics(address);
  const metric = (name: string) => Number(new RegExp(`^baobab_nodejs_${name} (\\S+)$`, 'm').exec(metrics)?.[1]);
  const [serverMb, heapMb, heapPagesMb] = [
    residentMb(pid),
    metric('heap_size_used_bytes') / 2 ** 20,
    metric('heap_size_total_bytes') / 2 ** 20,
  ];
  return {
    atMs: elapsed(),
    serverMb,
    serverInUseMb: serverMb - heapPagesMb + heapMb,
    heapMb,
    enginesMb: childrenOf(pid).reduce((sum, child) => sum + residentMb(child), 0),
    handles: metric('active_handles_total'),
    descriptors: (await readdir(`/proc/${pid}/fd`)).length,
  };
}

const samples: Sample[] = [];
const between = (from: number, to: number, kind: keyof Sample) =>
  median(samples.filter(({ atMs }) => atMs >= from * totalMs && atMs < to * totalMs).map((each) => each[kind]));

printConditions(`Soak of ${values.minutes} minutes, ${values.clients} clients`);
const running = Promise.all(Array.from({ length: Number(values.clients) }, client));
const sampling = (async () => {
  while (elapsed() < totalMs) {
    await sample().then(
      (taken) => samples.push(taken),
      (error) => receipts.problem(`failed to measure memory: ${error}`),
    );
    await sleep(totalMs / SAMPLES);
  }
})();
let found: string[] = [];
for (let round = 1; round < CHECKS && found.length === 0; round += 1) {
  await sleep(Math.max(0, (totalMs * round) / CHECKS - elapsed()));
  found = await check({ measureMemory: round === 1 });
  const { whole, part, lost } = receipts.counts;
  const last = samples.at(-1);
  console.log(
    `${(elapsed() / 60_000).toFixed(1)} min: ${whole} answered, ${part + lost} cancelled, ${found.length} differences; ` +
      `server ${last?.serverMb.toFixed(0)} MB, heap ${last?.heapMb.toFixed(0)} MB, engines ${last?.enginesMb.toFixed(0)} MB, ` +
      `${last?.handles} handles, ${last?.descriptors} descriptors`,
  );
}
await running;
await sampling;
if (found.length === 0) found = await check({ measureMemory: true });
for (const text of found.slice(0, 20)) console.log(`  ${text}`);

const growth: string[] = [];
const compare = (kind: string, [early = Number.NaN, late = Number.NaN]: readonly number[], isChecked: boolean) => {
  // Ten percent, or twenty units: garbage collections are not regular.
  const isFlat = late <= Math.max(early * 1.1, early + 20);
  if (isChecked && !isFlat) growth.push(kind);
  const note = isChecked ? '' : ' (not checked)';
  console.log(`${kind}: ${early.toFixed(0)} after the first minutes, ${late.toFixed(0)} at the end${note}`);
};
compare('server at rest, MB', atRestMb, true);
for (const kind of ['serverInUseMb', 'heapMb', 'enginesMb', 'handles', 'descriptors'] as const)
  compare(kind, [between(0.1, 0.25, kind), between(0.85, 1.1, kind)], true);
compare('serverMb', [between(0.1, 0.25, 'serverMb'), between(0.85, 1.1, 'serverMb')], false);
const { whole, part, lost } = receipts.counts;
const passed = found.length === 0 && growth.length === 0;
console.log(
  `${passed ? 'PASSED' : 'FAILED'}: ${whole} answers and ${part + lost} cancelled streams in ${values.minutes} minutes, ` +
    `${found.length} differences, ${growth.length === 0 ? 'memory and handles flat' : `grown: ${growth.join(', ')}`}`,
);
if (!passed) process.exitCode = 1;
await clients.close();
await upstream.close();
