import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { FILE_THREADS, SERVE_FLAGS } from '../../bin/serve-flags.mjs';
import { freePort } from '../../test/fixtures/free-port.ts';
import { childrenOf } from '../measure.ts';
import { type Program, startProgram } from '../program.ts';
import { chatBody, KEY, MODEL } from './chat.ts';
import { type Layout, pinned, pinProcess } from './cores.ts';

/** One gateway under test. */
export interface Side extends AsyncDisposable {
  name: string;
  url: string;
  healthUrl: string;
  headers: Record<string, string>;
  body: string;
  streamBody: string;
  /** All its processes. */
  pids(): number[];
  /** Stops and continues it, so that it takes nothing from the others. Servers with leases are not paused. */
  pause(isPaused: boolean): void;
}

const ROOT = join(import.meta.dirname, '../..');
const READY_TIMEOUT_MS = 120_000;

export function toSide(
  name: string,
  program: Program,
  facts: { health: string; model: string; hasLeases?: boolean },
): Side {
  const pid = program.process.pid ?? 0;
  return {
    name,
    url: `${program.address}/v1/chat/completions`,
    healthUrl: program.address + facts.health,
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: chatBody(facts.model, false),
    streamBody: chatBody(facts.model, true),
    pids: () => [pid, ...childrenOf(pid)],
    pause(isPaused) {
      if (facts.hasLeases !== true) program.process.kill(isPaused ? 'SIGSTOP' : 'SIGCONT');
    },
    async [Symbol.asyncDispose]() {
      program.process.kill('SIGCONT');
      await program[Symbol.asyncDispose]();
    },
  };
}

/** Waits until a program that does not print its address answers. */
async function started(command: string[], options: { address: string; health: string; env?: Record<string, string> }) {
  const program = await startProgram(command, options.env ?? {}, options.address);
  const deadline = performance.now() + READY_TIMEOUT_MS;
  while (
    !(await fetch(options.address + options.health)
      .then(({ ok }) => ok)
      .catch(() => false))
  ) {
    if (program.process.exitCode !== null)
      throw new Error(`${command.join(' ')} ended with ${program.process.exitCode}`);
    if (performance.now() > deadline) throw new Error(`${command.join(' ')} is not ready`);
    await sleep(100);
  }
  return program;
}

export interface BaobabOptions {
  name: string;
  directory: string;
  upstream: string;
  layout: Layout;
  /** HTTP processes, each on a core of its own where there are enough. */
  workers?: number;
  store?: string;
  counters?: string;
  /** What the upstream is taken for. */
  dialect?: string;
  /** Another checkout, to show the effect of a change. */
  root?: string;
  env?: Record<string, string>;
}

export async function startBaobab({
  name,
  layout,
  workers = 1,
  root = ROOT,
  dialect = 'openai',
  ...options
}: BaobabOptions): Promise<Side> {
  const serve = [...SERVE_FLAGS, join(root, 'packages/server/src/main.ts'), 'serve', '--port', '0'];
  const program = await startProgram(pinned(layout.servers(workers), [process.execPath, ...serve]), {
    BAOBAB_DATA_DIR: join(options.directory, name.replaceAll(/\W/g, '-')),
    BAOBAB_FIRST_KEY: KEY,
    BAOBAB_LOG_LEVEL: 'warn',
    BAOBAB_LOG_FORMAT: 'json',
    BAOBAB_WORKERS: `${workers}`,
    BAOBAB_LIMITS_CHAT_RPM: '100000000',
    BAOBAB_LIMITS_CHAT_TPM: '1000000000000',
    BAOBAB_UPSTREAMS: JSON.stringify([
      { model: MODEL, url: `${options.upstream}/v1`, kind: dialect, max_concurrency: 16384 },
    ]),
    ...(options.store === undefined ? {} : { BAOBAB_STORE: options.store }),
    ...(options.counters === undefined ? {} : { BAOBAB_COUNTERS: options.counters }),
    UV_THREADPOOL_SIZE: FILE_THREADS,
    ...options.env,
  });
  const side = toSide(name, program, { health: '/healthz', model: MODEL, hasLeases: options.counters !== undefined });
  if (workers > 1) for (const [index, pid] of side.pids().slice(1).entries()) pinProcess(`${index}`, pid);
  return side;
}

/** Bifrost's keys start with `sk-bf-`. */
const BIFROST_KEY = 'sk-bf-bench-0123456789';
const NO_LIMIT = 1_000_000_000;

/** As Baobab does: a key with limits and a budget, and a log of what each request cost. Bifrost writes the log after the answer. */
const bifrostAccounting = (home: string) => ({
  config_store: { enabled: true, type: 'sqlite', config: { path: join(home, 'config.db') } },
  logs_store: { enabled: true, type: 'sqlite', config: { path: join(home, 'logs.db') } },
  governance: {
    virtual_keys: [
      {
        id: 'bench',
        name: 'bench',
        value: BIFROST_KEY,
        rate_limit_id: 'bench',
        provider_configs: [{ provider: 'openai', allowed_models: ['*'], key_ids: ['*'], weight: 1 }],
      },
    ],
    rate_limits: [
      {
        id: 'bench',
        token_max_limit: NO_LIMIT,
        token_reset_duration: '1m',
        request_max_limit: NO_LIMIT,
        request_reset_duration: '1m',
      },
    ],
    budgets: [{ id: 'bench', max_limit: NO_LIMIT, reset_duration: '1M', virtual_key_id: 'bench' }],
  },
});

/** Bifrost with what it needs to answer, or with its own accounting. */
export async function startBifrost(
  program: string,
  options: { directory: string; upstream: string; layout: Layout; name: string; accounting?: boolean },
): Promise<Side> {
  const { accounting = false, name } = options;
  const home = join(options.directory, accounting ? 'bifrost-accounting' : 'bifrost');
  await mkdir(home, { recursive: true });
  const prices = join(home, 'prices.json');
  const price = { input_cost_per_token: 1e-6, output_cost_per_token: 2e-6, provider: 'openai', mode: 'chat' };
  await writeFile(prices, JSON.stringify({ bench: price }));
  const key = { name: 'bench', value: 'sk-bench', models: ['*'], weight: 1 };
  const pricing = {
    pricing_url: `file://${prices}`,
    model_parameters_url: `file://${prices}`,
    mcp_library_sync_interval: 0,
  };
  await writeFile(
    join(home, 'config.json'),
    JSON.stringify({
      client: {
        enable_logging: accounting,
        enforce_auth_on_inference: accounting,
        initial_pool_size: 1000,
        drop_excess_requests: false,
        disable_db_pings_in_health: true,
      },
      framework: { pricing },
      ...(accounting ? bifrostAccounting(home) : { config_store: { enabled: false }, logs_store: { enabled: false } }),
      providers: {
        openai: {
          keys: [key],
          network_config: { base_url: options.upstream, max_retries: 0, default_request_timeout_in_seconds: 60 },
          concurrency_and_buffer_size: { concurrency: 2000, buffer_size: 5000 },
        },
      },
    }),
  );
  const port = await freePort();
  const command = [program, '-app-dir', home, '-port', `${port}`, '-host', '127.0.0.1', '-log-level', 'error'];
  const address = `http://127.0.0.1:${port}`;
  const running = await started(pinned(options.layout.servers(1), command), { address, health: '/health' });
  const side = toSide(name, running, { health: '/health', model: 'openai/bench' });
  return accounting ? { ...side, headers: { ...side.headers, 'x-bf-vk': BIFROST_KEY } } : side;
}

/** LiteLLM without a database, one worker. `venv` contains `litellm[proxy]`. */
export async function startLiteLlm(
  venv: string,
  options: { directory: string; upstream: string; layout: Layout },
): Promise<Side> {
  const home = join(options.directory, 'litellm');
  await mkdir(home, { recursive: true });
  const config = join(home, 'config.yaml');
  const parameters = { model: 'openai/bench', api_base: `${options.upstream}/v1`, api_key: 'sk-bench' };
  // YAML is a superset of JSON.
  await writeFile(
    config,
    JSON.stringify({
      model_list: [{ model_name: 'bench', litellm_params: parameters }],
      litellm_settings: { num_retries: 0, telemetry: false, set_verbose: false },
      general_settings: { master_key: KEY },
    }),
  );
  const port = await freePort();
  const command = [
    join(venv, 'bin/litellm'),
    '--config',
    config,
    '--port',
    `${port}`,
    '--host',
    '127.0.0.1',
    '--num_workers',
    '1',
  ];
  const address = `http://127.0.0.1:${port}`;
  const running = await started(pinned(options.layout.servers(1), command), {
    address,
    health: '/health/liveliness',
    env: { LITELLM_LOCAL_MODEL_COST_MAP: 'True', LITELLM_LOG: 'ERROR' },
  });
  return toSide('LiteLLM', running, { health: '/health/liveliness', model: 'bench' });
}

/** A reverse proxy with one worker, which knows nothing of what it passes on. */
export async function startNginx(
  program: string,
  options: { directory: string; upstream: string; layout: Layout },
): Promise<Side> {
  const port = await freePort();
  const config = join(options.directory, 'nginx.conf');
  await writeFile(
    config,
    `daemon off; worker_processes 1; pid ${options.directory}/nginx.pid; error_log stderr error;
     worker_rlimit_nofile 65536; events { worker_connections 32768; }
     http { access_log off; server { listen 127.0.0.1:${port} backlog=4096; location / {
       proxy_pass ${options.upstream}; proxy_buffering off; proxy_http_version 1.1; proxy_set_header Connection "";
     } } }`,
  );
  const address = `http://127.0.0.1:${port}`;
  const command = pinned(options.layout.servers(1), [program, '-c', config, '-p', options.directory]);
  const running = await started(command, { address, health: '/healthz' });
  return toSide('nginx', running, { health: '/healthz', model: 'bench' });
}

/** Where a peer is, from a flag or a variable. Says so when it is absent. */
export function findPeer(name: string, found: string | undefined, hint: string): string | undefined {
  if (found !== undefined && existsSync(found)) return found;
  const why = found === undefined ? `not given (${hint})` : `not found at ${found}`;
  console.log(`${name} is absent from this run: ${why}`);
  return undefined;
}
