/**
 * Two tenants send requests while a third attacks, and a light one sends short embeddings and looks at its key, one after the other. Their
 * throughput and their median latency under each attack are divided by those right before and after it, in one run on one server. The ratio
 * is the median over the rounds. Attacker, upstream and server have their own processes; the processor time of the server shows whether
 * there were cores to spare.
 *
 *   node bench/noisy-neighbour.ts [--seconds 5] [--rounds 3] [--only 'bad keys' --only uploads] [--light 'own key'] [--quick]
 *
 * With `--light 'own key'` the light tenant looks at its key and nothing else, and no model runs for it.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Pool } from 'undici';
import { startServer } from '../test/acceptance/start-server.ts';
import { childrenOf, createReport, median, percentile, printConditions, processorSeconds } from './measure.ts';
import { ATTACKS, EMBEDDING_MODEL, RERANK_MODEL } from './noisy-neighbour/attacks.ts';
import { startProgram } from './program.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string' },
    rounds: { type: 'string' },
    only: { type: 'string', multiple: true },
    light: { type: 'string', multiple: true },
    quick: { type: 'boolean', default: false },
  },
});
const seconds = Number(values.seconds ?? (values.quick ? 2 : 5));
const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
const GOAL = 0.9;
/** Of the median latency of the light tenant. */
const LATENCY_GOAL = 2;
const TENANTS = ['first', 'second'];
/** Concurrent requests per tenant. */
const CONCURRENCY = 8;
const DELAY_MS = 100;
/** Time for an attack to reach full strength. */
const RAMP_MS = 1_000;
const REMOTE_MODEL = 'qwen/qwen2.5-7b-instruct';
const LOCAL_MODEL = 'huggingfacetb/smollm2-135m-instruct';

await using upstream = await startProgram(
  [process.execPath, join(import.meta.dirname, 'noisy-neighbour/upstream.ts')],
  { DELAY_MS: String(DELAY_MS) },
);
await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-bench-'));
const config = join(directory.path, 'baobab.yaml');
await writeFile(
  config,
  [
    'log: { level: error, format: json }',
    // No request fails for its rate.
    'limits:',
    ...['chat', 'embedding', 'rerank'].map((kind) => `  ${kind}: { rpm: 10000000, tpm: 10000000000 }`),
    'upstreams:',
    `  - { model: ${REMOTE_MODEL}, url: ${upstream.address}/v1, kind: openai, name: fake, max_concurrency: 32 }`,
  ].join('\n'),
);
await using server = await startServer({ args: ['--config', config] });

async function admin(path: string, body: object): Promise<Record<string, string>> {
  const answer = await fetch(`${server.address}/v1/admin/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
  return (await answer.json()) as Record<string, string>;
}

async function tenantKey(name: string): Promise<string> {
  const account = await admin('accounts', { name });
  const { secret } = await admin('keys', { account: account.id, name });
  return secret ?? '';
}
const keys = await Promise.all(TENANTS.map(tenantKey));
const attackerKey = await tenantKey('attacker');
const lightKey = await tenantKey('light');
const pool = new Pool(server.address, { connections: TENANTS.length * CONCURRENCY });

const LIGHT = {
  'short embedding': {
    method: 'POST',
    path: '/v1/embeddings',
    body: JSON.stringify({ model: EMBEDDING_MODEL, input: 'When did the rains come?' }),
  },
  'own key': { method: 'GET', path: '/v1/keys/me' },
} as const;
type LightRequest = keyof typeof LIGHT;
const LIGHT_REQUESTS = (Object.keys(LIGHT) as LightRequest[]).filter(
  (each) => values.light === undefined || values.light.includes(each),
);
if (LIGHT_REQUESTS.length === 0) throw new Error(`--light takes ${Object.keys(LIGHT).join(' or ')}`);
const noTimes = (): Record<LightRequest, number[]> => ({ 'short embedding': [], 'own key': [] });

const lightPool = new Pool(server.address, { connections: LIGHT_REQUESTS.length });

interface Reading {
  /** How many cores the server and its engines kept busy. */
  cores: number;
  /** Median milliseconds of the light tenant's requests. */
  lightMs: Record<LightRequest, number>;
  perSecond: number;
  p99Ms: number;
  /** Answers other than 200, by status. */
  failures: Map<number, number>;
}

async function measure(): Promise<Reading> {
  const times: number[] = [];
  const failures = new Map<number, number>();
  const failed = (status: number) => failures.set(status, (failures.get(status) ?? 0) + 1);
  const until = performance.now() + seconds * 1_000;
  const processorBefore = processorTime();
  const work = async (key: string) => {
    while (performance.now() < until) {
      const began = performance.now();
      const answer = await pool.request({
        method: 'POST',
        path: '/v1/chat/completions',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: REMOTE_MODEL, messages: [{ role: 'user', content: 'Capital of Kenya?' }] }),
      });
      await answer.body.dump();
      if (answer.statusCode === 200) times.push(performance.now() - began);
      else failed(answer.statusCode);
    }
  };
  const lightTimes = noTimes();
  const light = async (name: LightRequest) => {
    while (performance.now() < until) {
      const began = performance.now();
      const headers = { authorization: `Bearer ${lightKey}`, 'content-type': 'application/json' };
      const answer = await lightPool.request({ ...LIGHT[name], headers });
      await answer.body.dump();
      if (answer.statusCode === 200) lightTimes[name].push(performance.now() - began);
      else failed(answer.statusCode);
    }
  };
  const tenants = keys.flatMap((key) => Array.from({ length: CONCURRENCY }, () => work(key)));
  await Promise.all([...tenants, ...LIGHT_REQUESTS.map(light)]);
  const lightMs = {
    'short embedding': median(lightTimes['short embedding']),
    'own key': median(lightTimes['own key']),
  };
  const cores = (processorTime() - processorBefore) / seconds;
  return { cores, lightMs, perSecond: times.length / seconds, p99Ms: percentile(times, 0.99), failures };
}

async function underAttack(name: string): Promise<Reading> {
  const attacker = fork(join(import.meta.dirname, 'noisy-neighbour/attacker.ts'), [
    name,
    server.address,
    attackerKey,
    REMOTE_MODEL,
    LOCAL_MODEL,
  ]);
  await once(attacker, 'message');
  await sleep(RAMP_MS);
  const reading = await measure();
  attacker.kill('SIGTERM');
  await once(attacker, 'exit');
  return reading;
}

/** Loads what an attack or the light tenant uses, so that a running engine is measured. Returns why it cannot be used. */
async function warmUp(path: string, body: object): Promise<string | undefined> {
  const answer = await fetch(`${server.address}/v1/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${attackerKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return answer.ok ? undefined : await answer.text();
}

/** Requests on the longest page of a list of them. */
const PAGE = 200;

/** Without requests of its own, the lists and reports of the attacker would be short. */
async function fillPage(): Promise<string | undefined> {
  const body = { model: REMOTE_MODEL, messages: [{ role: 'user', content: 'Capital of Kenya?' }] };
  for (let sent = 0; sent < PAGE; sent += CONCURRENCY) {
    const problems = await Promise.all(Array.from({ length: CONCURRENCY }, () => warmUp('chat/completions', body)));
    const problem = problems.find((each) => each !== undefined);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

const WARM_UPS: Record<string, () => Promise<string | undefined>> = {
  'usage reports': fillPage,
  'grammar bombs': () =>
    warmUp('chat/completions', { model: LOCAL_MODEL, max_tokens: 1, messages: [{ role: 'user', content: 'Hi' }] }),
  'token counts': () =>
    warmUp('messages/count_tokens', { model: LOCAL_MODEL, messages: [{ role: 'user', content: 'Hi' }] }),
  rerank: () => warmUp('rerank', { model: RERANK_MODEL, query: 'a', documents: ['a'] }),
};

const sum = (failures: Reading['failures']): number => failures.values().reduce((all, count) => all + count, 0);

const failuresText = (failures: Reading['failures']): string =>
  ['failed', sum(failures), ...[...failures].map(([status, count]) => `(${count} × ${status})`)].join(' ');

/** Processor seconds of the server and its engines so far. */
const processorTime = (): number => {
  const pid = server.process.pid ?? 0;
  return processorSeconds([pid, ...childrenOf(pid)]);
};

printConditions(`Noisy neighbour, ${TENANTS.length} tenants with ${CONCURRENCY} concurrent requests of ${DELAY_MS} ms`);
const problem = LIGHT_REQUESTS.includes('short embedding')
  ? await warmUp('embeddings', { model: EMBEDDING_MODEL, input: 'a' })
  : undefined;
if (problem !== undefined) throw new Error(`${EMBEDDING_MODEL} does not answer: ${problem}`);
await measure();
const skipped: string[] = [];
const report = createReport();
for (const name of Object.keys(ATTACKS).filter((each) => values.only === undefined || values.only.includes(each))) {
  const missing = await WARM_UPS[name]?.();
  if (missing !== undefined) {
    skipped.push(`${name}: ${missing}`);
    continue;
  }
  const ratios: number[] = [];
  const lightRatios = noTimes();
  let failures = 0;
  for (let round = 0; round < rounds; round += 1) {
    const before = await measure();
    const attacked = await underAttack(name);
    const after = await measure();
    const quiet = (before.perSecond + after.perSecond) / 2;
    ratios.push(attacked.perSecond / quiet);
    failures += sum(attacked.failures);
    const lightTexts = LIGHT_REQUESTS.map((each) => {
      const alone = (before.lightMs[each] + after.lightMs[each]) / 2;
      lightRatios[each].push(attacked.lightMs[each] / alone);
      return `${each} ${alone.toFixed(1)} → ${attacked.lightMs[each].toFixed(1)} ms`;
    });
    const [quietRate, attackedRate] = [quiet, attacked.perSecond].map((rate) => rate.toFixed(0));
    console.log(
      `${name.padEnd(14)} quiet ${quietRate}/s, attacked ${attackedRate}/s, p99 ${before.p99Ms.toFixed(0)} → ` +
        `${attacked.p99Ms.toFixed(0)} ms, ${failuresText(attacked.failures)}, ${lightTexts.join(', ')}, cores ${before.cores.toFixed(1)} → ${attacked.cores.toFixed(1)}`,
    );
  }
  report.add({ name: `throughput under ${name}`, value: median(ratios), atLeast: GOAL });
  for (const each of LIGHT_REQUESTS) {
    report.add({ name: `latency of ${each} under ${name}`, value: median(lightRatios[each]), atMost: LATENCY_GOAL });
  }
  report.add({ name: `failed requests under ${name}`, value: failures, atMost: 0, digits: 0 });
}
report.print();
for (const text of skipped) console.log(`skipped ${text}`);
await pool.destroy();
await lightPool.destroy();
