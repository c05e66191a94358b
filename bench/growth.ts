import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { DAY_MS } from '../packages/core/src/domain/time/durations.ts';
import { openStore } from '../packages/server/src/adapters/store.ts';
import { startServer } from '../test/acceptance/start-server.ts';
import { startFakeUpstream } from '../test/fixtures/fake-upstream.ts';
import { startOwnPostgres } from '../test/fixtures/postgres-server.ts';
import { POPULAR, UPSTREAMS, writeCatalog } from './growth/catalog.ts';
import { fill, growthOf, LONG_CONVERSATION, MODELS, ownFileId, SPAN_MS, type Target } from './growth/fill.ts';
import { createReport, median, printConditions, processorSeconds } from './measure.ts';

/**
 * Compares a store with 100 000 accounts, 300 000 keys, 900 000 series of the ledger, 1.5 million requests and as many files with one that has
 * a thousandth of that, so that pages of both are full. A million of the files are of the account that is measured, whatever the share. Nothing that an account does may take half again as long. Then a server with 2 000
 * models and 1 000 upstreams, of which one model has half, with one that has two of each.
 *
 *   node bench/growth.ts [--part sqlite|postgres|catalog] [--share 0.1] [--rounds 30]
 */
const { values } = parseArgs({
  options: {
    part: { type: 'string', multiple: true, default: ['sqlite', 'postgres', 'catalog'] },
    share: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '30' },
    quick: { type: 'boolean', default: false },
  },
});
const share = values.quick ? 0.02 : Number(values.share);
const rounds = values.quick ? 5 : Number(values.rounds);
const MOST_GROWTH = 1.5;
const GOAL_MS = 1_000;
/** Below this, the difference of two measurements on a busy machine says nothing. */
const NOISE_MS = 3;

type Server = Awaited<ReturnType<typeof startServer>>;

interface Operation {
  path: string;
  /** Sends this instead of reading. */
  body?: object | (() => FormData);
  /** Deletes what it has added, too. */
  isUndone?: boolean;
  method?: 'DELETE';
  /** For operators, over all accounts. */
  isReport?: boolean;
  /** Other than a second. */
  atMostMs?: number;
}

const since = (days: number) => new Date(Date.now() - days * DAY_MS).toISOString();

function smallFile(): FormData {
  const form = new FormData();
  form.set('purpose', 'user_data');
  form.set('file', new Blob(['hello']), 'hello.txt');
  return form;
}

const OPERATIONS: Record<string, Operation> = {
  'embed a text': { path: '/v1/embeddings', body: { model: 'baobab/embed-multilingual', input: 'hello' } },
  models: { path: '/v1/models' },
  'own key': { path: '/v1/keys/me' },
  'own keys': { path: '/v1/keys?limit=100' },
  'own files': { path: '/v1/files?limit=100' },
  'own files of a purpose': { path: '/v1/files?limit=100&purpose=batch' },
  'oldest own files': { path: '/v1/files?limit=100&order=asc' },
  'own files after one in the middle': { path: `/v1/files?limit=100&order=asc&after=${ownFileId(500)}` },
  'last page of own files': { path: `/v1/files?limit=100&after=${ownFileId(50)}` },
  'last page of own files of a purpose': { path: `/v1/files?limit=100&purpose=batch&after=${ownFileId(50)}` },
  '10 000 own files': { path: '/v1/files', isReport: true },
  'a file, uploaded and deleted': { path: '/v1/files', body: smallFile, isUndone: true },
  'own batches': { path: '/v1/batches' },
  'own requests': { path: '/v1/requests' },
  'own failed requests': { path: '/v1/requests?status=error' },
  'own usage of a month': { path: `/v1/usage?start=${since(30)}&group_by=model` },
  'own performance of a month': { path: `/v1/performance?start=${since(30)}&bucket=day` },
  'own audit log': { path: '/v1/audit' },
  'items of a conversation of 10 000': {
    path: `/v1/conversations/${LONG_CONVERSATION}/items?limit=100`,
  },
  'an item, added to a conversation of 10 000 and deleted': {
    path: `/v1/conversations/${LONG_CONVERSATION}/items`,
    body: { items: [{ role: 'user', content: 'hello' }] },
    isUndone: true,
  },
  'a hundred accounts': { path: '/v1/admin/accounts?limit=100' },
  'a hundred keys': { path: '/v1/admin/keys?limit=100' },
  'all requests': { path: '/v1/requests?account=*' },
  'all failed requests': { path: '/v1/requests?account=*&status=error' },
  'audit log of all': { path: '/v1/admin/audit' },
  metrics: { path: '/metrics' },
  'usage of all over a week': { path: `/v1/usage?account=*&start=${since(7)}`, isReport: true },
  'usage of all by model': { path: `/v1/usage?account=*&group_by=model&top=50&start=${since(7)}`, isReport: true },
  'usage of all by account': { path: `/v1/usage?account=*&group_by=account&top=50&start=${since(7)}`, isReport: true },
  'usage of all by key': { path: `/v1/usage?account=*&group_by=key&top=50&start=${since(7)}`, isReport: true },
  'usage of all as CSV': {
    path: `/v1/usage?account=*&group_by=model&start=${since(7)}&format=csv`,
    isReport: true,
    atMostMs: 10_000,
  },
  'performance of all': { path: `/v1/performance?account=*&start=${since(7)}&bucket=day`, isReport: true },
};

const chatWith = (model: string): Operation => ({
  path: '/v1/chat/completions',
  body: { model, messages: [{ role: 'user', content: 'hello' }] },
});

/** With 2 000 models and 1 000 upstreams, in processor time. Lists of all of them grow; what an account does must not. */
const OF_CATALOG: Record<string, Operation> = {
  'own key': { path: '/v1/keys/me' },
  'a model': { path: `/v1/models/${POPULAR}` },
  'a chat at one of 500 upstreams': chatWith(POPULAR),
  'a chat at the only upstream': chatWith('growth/model-1'),
  'list of models': { path: '/v1/models', isReport: true, atMostMs: 50 },
  'engines of all models': { path: '/v1/admin/engines', isReport: true, atMostMs: 50 },
  metrics: { path: '/metrics', isReport: true, atMostMs: 150 },
};

async function send(server: Server, { path, body, method, isUndone }: Operation): Promise<number> {
  const began = performance.now();
  const isForm = typeof body === 'function';
  const response = await fetch(`${server.address}${path}`, {
    headers: {
      authorization: `Bearer ${server.apiKey}`,
      ...(!isForm && { 'content-type': 'application/json' }),
    },
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    ...(body && { body: isForm ? body() : JSON.stringify(body) }),
    signal: AbortSignal.timeout(60_000),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${text.slice(0, 200)}`);
  if (isUndone) {
    const added = JSON.parse(text) as { id?: string; data?: { id: string }[] };
    await send(server, { path: `${path}/${added.data?.[0]?.id ?? added.id}`, method: 'DELETE' });
  }
  return performance.now() - began;
}

/** In turns, so that other load on the machine meets both. */
async function compareOnce(small: Server, grown: Server, operation: Operation): Promise<[number, number]> {
  const times: [number[], number[]] = [[], []];
  const count = operation.isReport ? Math.min(rounds, 7) : rounds;
  for (let round = -2; round < count; round += 1) {
    for (const [index, server] of [small, grown].entries()) {
      const ms = await send(server, operation);
      if (round >= 0) times[index]?.push(ms);
    }
  }
  return [median(times[0]), median(times[1])];
}

const growth = ([before, after]: [number, number]): number => (after + NOISE_MS) / (before + NOISE_MS);

/** Up to three times: other load may meet one of them only. */
async function compare(small: Server, grown: Server, operation: Operation): Promise<[number, number]> {
  const tries: [number, number][] = [];
  do tries.push(await compareOnce(small, grown, operation));
  while (tries.length < 3 && !operation.isReport && Math.min(...tries.map(growth)) > MOST_GROWTH);
  return tries.toSorted((one, other) => growth(one) - growth(other))[0] as [number, number];
}

/** Processor time of a request, which other load on the machine does not change. `besidesMs`: what else the server has used so far. */
async function processorMs(server: Server, operation: Operation, besidesMs = () => 0): Promise<number> {
  const pids = [server.process.pid ?? 0];
  for (let round = 0; round < 3; round += 1) await send(server, operation);
  const usedMs = () => processorSeconds(pids) * 1000 - besidesMs();
  const before = usedMs();
  for (let round = 0; round < rounds; round += 1) await send(server, operation);
  return (usedMs() - before) / rounds;
}

async function measureOperations(
  operations: Record<string, Operation>,
  [small, grown]: readonly [Server, Server],
  cost: (operation: Operation) => Promise<[number, number]> = (operation) => compare(small, grown, operation),
): Promise<ReturnType<typeof createReport>> {
  const report = createReport();
  for (const [name, operation] of Object.entries(operations)) {
    const [before, after] = await cost(operation);
    console.log(`  ${name}: ${before.toFixed(1)} ms, then ${after.toFixed(1)} ms`);
    const { isReport, atMostMs = GOAL_MS } = operation;
    if (isReport) report.add({ name, value: after, atMost: atMostMs, unit: ' ms', digits: 0 });
    else report.add({ name, value: growth([before, after]), atMost: MOST_GROWTH });
  }
  const stopping = performance.now();
  await grown.stop();
  report.add({ name: 'stop', value: performance.now() - stopping, unit: ' ms', digits: 0 });
  return report;
}

const EXPIRED = 200;

/** What the server does when so many files have expired. */
async function sweepMs(target: Target): Promise<number> {
  const store = await openStore(target);
  const began = performance.now();
  const discarded = await store.files.discardExpired(Date.now() + SPAN_MS, EXPIRED);
  if (discarded !== EXPIRED) throw new Error(`${discarded} files have expired`);
  await store.files.forget((await store.files.listDiscarded(EXPIRED)).map(({ id }) => id));
  const ms = performance.now() - began;
  await store.close();
  return ms;
}

async function measureStore(kind: string, small: Side, grown: Side): Promise<void> {
  for (const side of [small, grown]) await (await startServer(side)).stop();
  console.log(`${kind}: filling`);
  const began = performance.now();
  await fill(small.target, growthOf(0.001), () => {});
  await fill(grown.target, growthOf(share, values.quick ? share : 1));
  console.log(`  filled in ${((performance.now() - began) / 1000).toFixed(0)} s`);
  await using smallServer = await startServer(small);
  const starting = performance.now();
  await using grownServer = await startServer(grown);
  console.log(`  started in ${((performance.now() - starting) / 1000).toFixed(1)} s`);

  const report = await measureOperations(OPERATIONS, [smallServer, grownServer]);
  await smallServer.stop();
  const [before, after] = [await sweepMs(small.target), await sweepMs(grown.target)];
  console.log(`  ${EXPIRED} files that have expired: ${before.toFixed(1)} ms, then ${after.toFixed(1)} ms`);
  report.add({ name: `${EXPIRED} files that have expired`, value: after / before, atMost: MOST_GROWTH });
  report.print();
}

const IDLE_MS = 10_000;

async function measureCatalog(): Promise<void> {
  await using upstream = Object.assign(await startFakeUpstream('vllm', { contextLength: 32_768, models: ['added'] }), {
    [Symbol.asyncDispose]: () => upstream.close(),
  });
  const start = async (models: number, upstreams: number) => {
    const dataDir = join(directory, `catalog-${models}`);
    const env = await writeCatalog(dataDir, { url: upstream.url, models, upstreams });
    const limits = { BAOBAB_LIMITS_CHAT_RPM: '1000000', BAOBAB_LIMITS_CHAT_TPM: '1000000000' };
    const server = await startServer({ dataDir, env: { ...env, ...limits } });
    return { server, seconds: processorSeconds([server.process.pid ?? 0]) };
  };
  const small = await start(2, 2);
  const grown = await start(MODELS, UPSTREAMS);
  await using smallServer = small.server;
  await using grownServer = grown.server;
  console.log('catalog: 2 000 models and 1 000 upstreams');
  const pids = [grownServer.process.pid ?? 0];
  const [used, checked] = [processorSeconds(pids), upstream.healthChecks()];
  await setTimeout(IDLE_MS);
  const checkMs = ((processorSeconds(pids) - used) * 1000) / (upstream.healthChecks() - checked);
  const checksMs = () => checkMs * upstream.healthChecks();
  const before = processorSeconds(pids) - checksMs() / 1000;
  const body = { source: upstream.url, slug: 'growth/added', modality: 'chat' };
  await send(grownServer, { path: '/v1/admin/models', body });
  await send(grownServer, { path: '/v1/admin/models/growth/added', method: 'DELETE' });
  const reloads = processorSeconds(pids) - checksMs() / 1000 - before;
  const report = await measureOperations(OF_CATALOG, [smallServer, grownServer], async (operation) => [
    await processorMs(smallServer, operation),
    await processorMs(grownServer, operation, checksMs),
  ]);
  report.add({ name: 'longer start', value: grown.seconds - small.seconds, atMost: 5, unit: ' s of a core' });
  report.add({ name: 'a health check', value: checkMs, atMost: 1.5, unit: ' ms' });
  report.add({ name: 'a model is added and removed', value: reloads, atMost: 5, unit: ' s of a core' });
  report.print();
}

interface Side {
  dataDir: string;
  env: Record<string, string>;
  target: Target;
}

printConditions('A store that has grown');
const directory = await mkdtemp(join(tmpdir(), 'baobab-bench-growth-'));
try {
  for (const kind of values.part) {
    if (kind === 'catalog') {
      await measureCatalog();
      continue;
    }
    await using postgres = kind === 'postgres' ? await ownPostgres() : undefined;
    const side = async (name: string): Promise<Side> => {
      const dataDir = join(directory, `${kind}-${name}`);
      await mkdir(dataDir);
      const env = {
        BAOBAB_LIMITS_EMBEDDING_RPM: '1000000',
        BAOBAB_LIMITS_EMBEDDING_TPM: '1000000000',
        BAOBAB_FILES_QUOTA_FILES: '0',
      };
      if (postgres === undefined) {
        return { dataDir, env, target: { kind: 'sqlite', path: join(dataDir, 'baobab.sqlite') } };
      }
      const url = await postgres.createDatabase();
      return { dataDir, env: { ...env, BAOBAB_STORE: url }, target: { kind: 'postgres', url } };
    };
    await measureStore(kind, await side('small'), await side('grown'));
  }
} finally {
  await rm(directory, { recursive: true, force: true });
}

async function ownPostgres() {
  const server = await startOwnPostgres();
  return Object.assign(server, { [Symbol.asyncDispose]: () => server.stop() });
}
