/**
 * Restarts two servers behind a proxy, one after the other, again and again, under load. No request may fail.
 *
 *   npm run rolling-restart -- [--proxies haproxy,caddy,nginx] [--requests 10000]
 *
 * The proxies run the recipes of deploy/. One that is not installed is left out. `nginx-alone` restarts servers without telling nginx first.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import { startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { freePort } from '../fixtures/free-port.ts';
import { createReplica, type Replica } from './cluster/replica.ts';
import { PROXIES, type ProxyKind } from './proxies.ts';

const CHAT = 'qwen/qwen2.5-0.5b-instruct';
const KEY = 'rolling-restart-0123456789';
/** As in deploy/compose. */
const DRAIN_DELAY_MS = 8_000;
const LANES = 8;

/** On a connection of its own: whether a proxy closes one that its client uses is not the question. */
const ask = (address: string, stream: boolean): Promise<string | undefined> =>
  new Promise((resolve) => {
    const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
    const agent = new Agent({ keepAlive: false });
    const call = request(`${address}/v1/chat/completions`, { method: 'POST', headers, agent }, (response) => {
      text(response).then(
        (answer) => {
          const isWhole = response.statusCode === 200 && answer.includes(stream ? '[DONE]' : '"usage"');
          resolve(isWhole ? undefined : `${response.statusCode} ${answer.slice(0, 200)}`);
        },
        (error: Error) => resolve(error.message),
      );
    });
    call.on('error', (error) => resolve(error.message));
    call.end(JSON.stringify({ model: CHAT, messages: [{ role: 'user', content: 'hi' }], stream }));
  });

/** Requests that this process of the server has answered with a model. */
async function answeredBy({ address }: Replica): Promise<number> {
  const metrics = await (await fetch(`${address}/metrics`)).text();
  const counts = metrics.matchAll(/^baobab_http_requests_total\{[^}]*chat\/completions[^}]*\} (\d+)/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

async function restartBehind(kind: ProxyKind, wanted: number): Promise<string[]> {
  const directory = await mkdtemp(join(tmpdir(), `baobab-restart-${kind.name}-`));
  const upstream = await startFakeUpstream('vllm', { words: ['yes', ' and', ' no'], chunkDelayMs: 5 });
  const env = {
    BAOBAB_FIRST_KEY: KEY,
    BAOBAB_LOG_LEVEL: 'warn',
    BAOBAB_LOG_FORMAT: 'json',
    BAOBAB_HTTP_DRAIN_DELAY_MS: `${DRAIN_DELAY_MS}`,
    BAOBAB_LIMITS_CHAT_RPM: '100000000',
    BAOBAB_LIMITS_CHAT_TPM: '10000000000',
    BAOBAB_UPSTREAMS: JSON.stringify([{ model: CHAT, url: upstream.url, kind: 'vllm' }]),
  };
  const create = async (name: string) => {
    const port = await freePort();
    return createReplica({ name, host: '127.0.0.1', port, directory, env, newEnv: {}, prefix: [] });
  };
  const replicas = [await create('one'), await create('two')];
  const hostOf = ({ address }: Replica) => new URL(address).host;
  const failures: string[] = [];
  let [sent, restarts, isOver] = [0, 0, false];
  await Promise.all(replicas.map((replica) => replica.start()));
  const proxy = await kind.start(directory, replicas.map(hostOf));
  const beganAt = performance.now();
  const seconds = () => ((performance.now() - beganAt) / 1000).toFixed(1);
  try {
    while ((await ask(proxy.address, false)) !== undefined);
    const lanes = Array.from({ length: LANES }, async (_, lane) => {
      while (!isOver) {
        const failure = await ask(proxy.address, lane % 4 === 0);
        sent += 1;
        if (failure !== undefined) failures.push(`${seconds()} s: ${failure}`);
      }
    });
    for (let turn = 0; sent < wanted || turn < replicas.length; turn += 1) {
      const replica = replicas[turn % replicas.length] as Replica;
      const host = hostOf(replica);
      await proxy.remove(host);
      const stopMs = await replica.stop();
      await replica.start();
      await proxy.restore();
      // The proxy uses it again.
      while ((await answeredBy(replica)) === 0);
      restarts += 1;
      console.log(
        `${kind.name}, ${seconds()} s: restarted '${replica.name}', stopped in ${(stopMs / 1000).toFixed(1)} s; ${sent} requests, ${failures.length} failed`,
      );
    }
    isOver = true;
    await Promise.all(lanes);
  } finally {
    isOver = true;
    await proxy.stop();
    await Promise.all(replicas.map((replica) => replica.stop()));
    await upstream.close();
  }
  console.log(
    `${kind.name}: ${sent} requests while servers were restarted ${restarts} times, ${failures.length} failed`,
  );
  if (failures.length === 0) await rm(directory, { recursive: true, force: true });
  else console.log(`logs: ${directory}`);
  return failures;
}

const { values } = parseArgs({
  options: {
    proxies: { type: 'string', default: 'haproxy,caddy,nginx' },
    requests: { type: 'string', default: '10000' },
  },
});
let failed = 0;
for (const name of values.proxies.split(',')) {
  const kind = PROXIES.find((each) => each.name === name);
  if (kind === undefined)
    throw new Error(`--proxies: ${name} is none of ${PROXIES.map((each) => each.name).join(', ')}`);
  if (kind.missing !== undefined) {
    console.log(`${name} is left out: ${kind.missing}`);
    continue;
  }
  const failures = await restartBehind(kind, Number(values.requests));
  for (const failure of failures.slice(0, 20)) console.log(`FAILED ${name} ${failure}`);
  failed += failures.length;
}
process.exit(failed === 0 ? 0 : 1);
