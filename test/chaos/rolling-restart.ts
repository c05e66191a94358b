import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { Agent as SecureAgent, request as secureRequest } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type FakeUpstream, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { freePort } from '../fixtures/free-port.ts';
import { createReplica, type Replica } from './cluster/replica.ts';
import type { ProxyCertificate, ProxyKind } from './proxies.ts';

export const CHAT = 'qwen/qwen2.5-0.5b-instruct';
export const KEY = 'rolling-restart-0123456789';
/** As in deploy/compose. */
const DRAIN_DELAY_MS = 8_000;

/** On a connection of its own: whether a proxy closes one that its client uses is not the question. */
const ask = (address: string, stream: boolean): Promise<string | undefined> =>
  new Promise((resolve) => {
    const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
    const isSecure = address.startsWith('https:');
    const agent = new (isSecure ? SecureAgent : Agent)({ keepAlive: false });
    const options = { method: 'POST', headers, agent };
    const call = (isSecure ? secureRequest : request)(`${address}/v1/chat/completions`, options, (response) => {
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

interface Restarts {
  /** Sent at least; and each server is restarted, or as many as `restarts` says. */
  requests: number;
  restarts?: number;
  /** Clients that send one request after the other. */
  lanes: number;
  onRestart?: (restarted: string) => void;
}

export interface ServersBehindProxy extends AsyncDisposable {
  /** Of the proxy. */
  address: string;
  upstream: FakeUpstream;
  /** Restarts one server after the other under load, and returns what failed. */
  restart(options: Restarts): Promise<{ sent: number; restarts: number; failures: string[] }>;
}

/** Two servers behind a proxy, which runs the recipe of deploy/. Their logs stay if `restart` has found something. */
export async function startBehind(kind: ProxyKind, certificate?: ProxyCertificate): Promise<ServersBehindProxy> {
  const directory = await mkdtemp(join(tmpdir(), `baobab-restart-${kind.name}-`));
  const upstream = await startFakeUpstream('vllm', { words: ['yes', ' and', ' no'], chunkDelayMs: 5 });
  const env = {
    BAOBAB_FIRST_KEY: KEY,
    BAOBAB_LOG_LEVEL: 'warn',
    BAOBAB_LOG_FORMAT: 'json',
    BAOBAB_HTTP_DRAIN_DELAY_MS: `${DRAIN_DELAY_MS}`,
    BAOBAB_HTTP_TRUSTED_PROXIES: '127.0.0.1',
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
  await Promise.all(replicas.map((replica) => replica.start()));
  const proxy = await kind.start(directory, replicas.map(hostOf), certificate);
  const failures: string[] = [];
  while ((await ask(proxy.address, false)) !== undefined);
  return {
    address: proxy.address,
    upstream,

    async restart({ requests, restarts: wanted = replicas.length, lanes: width, onRestart }) {
      let [sent, restarts, isOver] = [0, 0, false];
      const beganAt = performance.now();
      const seconds = () => ((performance.now() - beganAt) / 1000).toFixed(1);
      const lanes = Array.from({ length: width }, async (_, lane) => {
        while (!isOver) {
          const failure = await ask(proxy.address, lane % 4 === 0);
          sent += 1;
          if (failure !== undefined) failures.push(`${seconds()} s: ${failure}`);
        }
      });
      try {
        while (sent < requests || restarts < wanted) {
          const replica = replicas[restarts % replicas.length] as Replica;
          await proxy.remove(hostOf(replica));
          const stopMs = await replica.stop();
          await replica.start();
          await proxy.restore();
          // The proxy uses it again.
          while ((await answeredBy(replica)) === 0);
          restarts += 1;
          onRestart?.(
            `${seconds()} s: restarted '${replica.name}', stopped in ${(stopMs / 1000).toFixed(1)} s; ${sent} requests, ${failures.length} failed`,
          );
        }
      } finally {
        isOver = true;
        await Promise.all(lanes);
      }
      return { sent, restarts, failures };
    },

    async [Symbol.asyncDispose]() {
      await proxy.stop();
      await Promise.all(replicas.map((replica) => replica.stop()));
      await upstream.close();
      if (failures.length === 0) await rm(directory, { recursive: true, force: true });
      else console.log(`logs: ${directory}`);
    },
  };
}
