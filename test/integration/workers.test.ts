import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { baobab } from '../acceptance/command.ts';
import { API_KEY, type RunningServer, startServer } from '../acceptance/start-server.ts';
import { answerJson, type FakeHandler, type FakeUpstream, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { PASSWORD, type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { redisMissing, redisUrl } from '../fixtures/redis-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';

const MODEL = 'intfloat/e5-mistral-7b-instruct';
const CHAT = 'qwen/qwen3-8b';
const WORKERS = 3;
const ADDED = ['--name', 'added-model', '--slug', 'acme/added', '--modality', 'chat', '--context-length', '4096'];
const LANES = 9;
const ANSWERS_BEFORE_THE_KILL = 60;

const missing = postgresMissing ?? redisMissing;

interface LogLine {
  msg?: string;
  worker?: number;
  pid?: number;
  path?: string;
}

const linesOf = (server: RunningServer): LogLine[] =>
  server
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as LogLine);

const starts = (server: RunningServer) => linesOf(server).filter(({ msg }) => msg === 'worker listens');

interface Answer {
  status: number | undefined;
  id: string;
  text: string;
}

/** On a connection of its own: each may go to another worker. */
const send = (server: RunningServer, path: string, body?: object): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' };
    const agent = new Agent({ keepAlive: false });
    const call = request(
      `${server.address}${path}`,
      { method: body === undefined ? 'GET' : 'POST', headers, agent },
      (response) => {
        text(response).then(
          (content) =>
            resolve({ status: response.statusCode, id: String(response.headers['x-request-id']), text: content }),
          reject,
        );
      },
    );
    call.on('error', reject);
    call.end(body === undefined ? undefined : JSON.stringify(body));
  });

const embed = (server: RunningServer, model = MODEL) => send(server, '/v1/embeddings', { model, input: 'one' });

/** Numbers of the workers whose metrics are there. */
async function workersInMetrics(server: RunningServer): Promise<string[]> {
  const { text: metrics } = await send(server, '/metrics');
  const found = metrics.matchAll(/^baobab_process_resident_memory_bytes\{worker="(\d+)"\}/gm);
  return [...found].map(([, number]) => number as string).toSorted();
}

describe.skipIf(missing !== undefined)('several workers on one port', () => {
  let postgres: PostgresServer;
  let redis: Awaited<ReturnType<typeof redisUrl>>;
  let upstream: FakeUpstream;
  let directory: Awaited<ReturnType<typeof mkdtempDisposable>>;
  let server: RunningServer;
  let store: string;
  beforeAll(async () => {
    [postgres, redis, upstream, directory] = await Promise.all([
      sharedPostgres(),
      redisUrl(),
      startFakeUpstream('openai', { models: ['added-model'] }),
      mkdtempDisposable(join(tmpdir(), 'baobab-workers-')),
    ]);
    const config = join(directory.path, 'workers.yaml');
    const lines = [
      `workers: ${WORKERS}`,
      'log: { level: info, format: json }',
      'limits: { embedding: { rpm: 10000000, tpm: 1000000000 } }',
      `upstreams: [{ model: ${MODEL}, url: ${upstream.url} }, { model: ${CHAT}, url: ${upstream.url} }]`,
    ];
    await writeFile(config, lines.join('\n'));
    store = await postgres.createDatabase();
    const env = { BAOBAB_STORE: store, BAOBAB_COUNTERS: redis.url };
    server = await startServer({ env, args: ['--config', config] });
  });
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    await Promise.all([postgres.stop(), redis.stop(), upstream.close(), directory.remove()]);
  });

  async function ledger(): Promise<{ billing_id: string; request_id: string }[]> {
    const client = new Client(store);
    await client.connect();
    const { rows } = await client.query('select billing_id, request_id from ledger').finally(() => client.end());
    return rows;
  }

  it('share the connections, count together and say in logs and metrics which one it was', async () => {
    // The kernel spreads connections by a hash of their ports.
    const served = () => linesOf(server).filter(({ path }) => path === '/v1/embeddings');
    let sent = 0;
    for (; new Set(served().map(({ worker }) => worker)).size < WORKERS; sent += 1) {
      expect((await embed(server)).status).toBe(200);
    }
    await expect.poll(() => served().length).toBe(sent);
    expect(await workersInMetrics(server)).toEqual(['1', '2', '3']);
    const { text: metrics } = await send(server, '/metrics');
    const counts = metrics.matchAll(/^baobab_http_requests_total\{[^}]*route="\/v1\/embeddings"[^}]*\} (\d+)$/gm);
    expect([...counts].map(([, count]) => Number(count)).reduce((sum, count) => sum + count)).toBe(sent);
    const usage = JSON.parse((await send(server, '/v1/usage?start=2026-01-01')).text) as { totals: unknown };
    expect(usage.totals).toMatchObject({ requests: sent });
    expect(JSON.parse((await send(server, '/readyz')).text)).toEqual({ status: 'ready', reasons: [] });
    expect(server.output()).not.toContain(PASSWORD);
    // Local models are not loaded once for each worker.
    const local = await embed(server, 'baobab/embed-multilingual');
    expect([local.status, local.text]).toEqual([503, expect.stringContaining('no upstream is configured')]);
  });

  it('all serve a model that a command added, and one data directory has one supervisor', async () => {
    const added = await baobab(server.dataDir, ['models', 'add', upstream.url, ...ADDED]);
    expect(added).toMatchObject({ exitCode: 0, stderr: expect.any(String) });
    for (let sent = 0; sent < 10 * WORKERS; sent += 1) {
      const chat = { model: 'acme/added', messages: [{ role: 'user', content: 'Hello' }] };
      expect(await send(server, '/v1/chat/completions', chat)).toMatchObject({ status: 200 });
    }
    const second = startServer({ dataDir: server.dataDir });
    await expect(second).rejects.toThrow(/is running on the data directory/);
  });

  it('all read their secrets again on SIGHUP', async () => {
    server.process.kill('SIGHUP');
    const read = () => linesOf(server).filter(({ msg }) => msg === 'read the secrets again');
    await expect
      .poll(() =>
        read()
          .map(({ worker }) => worker)
          .toSorted(),
      )
      .toEqual([1, 2, 3]);
    expect((await embed(server)).status).toBe(200);
  });

  it('go on when one is killed: acknowledged requests are billed once, and another worker takes its place', async () => {
    const before = (await ledger()).length;
    const acknowledged: string[] = [];
    let [sent, isDone] = [0, false];
    async function lane(): Promise<void> {
      while (!isDone) {
        sent += 1;
        // The connections of the killed worker break.
        const answer = await embed(server).catch(() => undefined);
        if (answer === undefined) continue;
        expect(answer.status).toBe(200);
        acknowledged.push(answer.id);
      }
    }
    const lanes = Array.from({ length: LANES }, lane);
    await expect.poll(() => acknowledged.length, { interval: 5 }).toBeGreaterThan(ANSWERS_BEFORE_THE_KILL);
    const victim = starts(server).find(({ worker }) => worker === 2);
    process.kill(Number(victim?.pid), 'SIGKILL');
    // The others go on meanwhile.
    const answered = acknowledged.length;
    await expect.poll(() => acknowledged.length, { interval: 5 }).toBeGreaterThan(answered + ANSWERS_BEFORE_THE_KILL);
    isDone = true;
    await Promise.all(lanes);
    await expect.poll(() => starts(server).filter(({ worker }) => worker === 2).length).toBe(2);
    await expect.poll(() => workersInMetrics(server)).toEqual(['1', '2', '3']);
    expect((await embed(server)).status).toBe(200);

    const rows = await ledger();
    expect(new Set(rows.map((row) => row.billing_id)).size).toBe(rows.length);
    expect(rows.length - before).toBeLessThanOrEqual(sent + 1);
    const billed = new Set(rows.map((row) => row.request_id));
    expect(acknowledged.filter((id) => !billed.has(id))).toEqual([]);
  });

  it('end running requests on SIGTERM', async () => {
    const gate = Promise.withResolvers<void>();
    const answer = answerJson(200, {
      choices: [{ index: 0, message: { role: 'assistant', content: 'Nzuri' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
    });
    const held: FakeHandler = async (asked, response) => {
      await gate.promise;
      await answer(asked, response);
    };
    upstream.script.push(...Array.from({ length: WORKERS }, () => held));
    const before = upstream.requests.length;
    const chat = { model: CHAT, messages: [{ role: 'user', content: 'Habari?' }] };
    const running = Array.from({ length: WORKERS }, () => send(server, '/v1/chat/completions', chat));
    await upstream.until(() => upstream.requests.length === before + WORKERS);
    const stopped = server.stop();
    await expect.poll(() => linesOf(server).filter(({ msg }) => msg?.startsWith('stopping')).length).toBe(WORKERS);
    gate.resolve();
    for (const { status } of await Promise.all(running)) expect(status).toBe(200);
    await stopped;
    expect(server.process.exitCode).toBe(0);
  });

  it('stop the start when one of them cannot start', async () => {
    const config = { BAOBAB_STORE: store.replace(/\/[^/]*$/, '/nowhere'), BAOBAB_COUNTERS: redis.url };
    const starting = startServer({ env: { ...config, BAOBAB_WORKERS: '2' } });
    await expect(starting).rejects.toThrow(/has no database 'nowhere'[\s\S]*worker 1 ended before it was ready/);
  });
});

describe('the setting workers', () => {
  it('needs PostgreSQL and Redis, and runs no models itself', async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-workers-'));
    const env = { BAOBAB_WORKERS: 'auto', BAOBAB_MODELS_WARM: 'baobab/embed-multilingual' };
    const { exitCode, stderr } = await baobab(directory.path, ['serve', '--port', '0'], env);
    expect(exitCode).toBe(1);
    expect(stderr).toContain('BAOBAB_WORKERS: workers: more than one process needs store: postgres://…');
    expect(stderr).toContain('BAOBAB_WORKERS: workers: more than one process needs counters: redis://…');
    expect(stderr).toContain('BAOBAB_MODELS_WARM: models.warm: with several workers models run on upstreams only');
    const wrong = await baobab(directory.path, ['serve', '--workers', 'many']);
    expect(wrong).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('--workers: workers: must be') });
  });
});
