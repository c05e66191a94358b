/**
 * Two tenants send requests while a third attacks. Their throughput under each attack is divided by their throughput right before and
 * after it, in one run on one server. The ratio is the median over the rounds. Attacker, upstream and server have their own processes.
 *
 *   node bench/noisy-neighbour.ts [--seconds 5] [--rounds 3] [--only 'bad keys'] [--quick]
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
import { createReport, median, percentile, printConditions } from './measure.ts';
import { ATTACKS } from './noisy-neighbour/attacks.ts';
import { startProgram } from './program.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string' },
    rounds: { type: 'string' },
    only: { type: 'string' },
    quick: { type: 'boolean', default: false },
  },
});
const seconds = Number(values.seconds ?? (values.quick ? 2 : 5));
const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
const GOAL = 0.9;
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
    'limits: { chat: { rpm: 10000000, tpm: 10000000000 } }',
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
const pool = new Pool(server.address, { connections: TENANTS.length * CONCURRENCY });

interface Reading {
  perSecond: number;
  p99Ms: number;
  failures: number;
}

async function measure(): Promise<Reading> {
  const times: number[] = [];
  let failures = 0;
  const until = performance.now() + seconds * 1_000;
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
      else failures += 1;
    }
  };
  await Promise.all(keys.flatMap((key) => Array.from({ length: CONCURRENCY }, () => work(key))));
  return { perSecond: times.length / seconds, p99Ms: percentile(times, 0.99), failures };
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

/** Loads the local model, so the grammar attack hits a running engine. */
async function warmUp(): Promise<void> {
  const answer = await fetch(`${server.address}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${attackerKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: LOCAL_MODEL, max_tokens: 1, messages: [{ role: 'user', content: 'Hi' }] }),
  });
  if (!answer.ok) throw new Error(`the local model does not answer: ${await answer.text()}`);
}

printConditions(`Noisy neighbour, ${TENANTS.length} tenants with ${CONCURRENCY} concurrent requests of ${DELAY_MS} ms`);
await warmUp();
await measure();
const report = createReport();
for (const name of Object.keys(ATTACKS).filter((each) => values.only === undefined || each === values.only)) {
  const ratios: number[] = [];
  let failures = 0;
  for (let round = 0; round < rounds; round += 1) {
    const before = await measure();
    const attacked = await underAttack(name);
    const after = await measure();
    const quiet = (before.perSecond + after.perSecond) / 2;
    ratios.push(attacked.perSecond / quiet);
    failures += attacked.failures;
    const [quietRate, attackedRate] = [quiet, attacked.perSecond].map((rate) => rate.toFixed(0));
    console.log(
      `${name.padEnd(14)} quiet ${quietRate}/s, attacked ${attackedRate}/s, p99 ${before.p99Ms.toFixed(0)} → ` +
        `${attacked.p99Ms.toFixed(0)} ms, ${attacked.failures} failed`,
    );
  }
  report.add({ name: `throughput under ${name}`, value: median(ratios), atLeast: GOAL });
  report.add({ name: `failed requests under ${name}`, value: failures, atMost: 0, digits: 0 });
}
report.print();
await pool.destroy();
