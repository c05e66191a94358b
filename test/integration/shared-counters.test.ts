import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postJson } from '../acceptance/post-json.ts';
import { API_KEY, type RunningServer, startServer } from '../acceptance/start-server.ts';
import { type FakeUpstream, silence, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { ownRedisMissing, type RedisServer, startRedis } from '../fixtures/redis-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';

const MODEL = 'intfloat/e5-mistral-7b-instruct';
/** Two words, and two tokens that the upstream adds. */
const TOKENS = 4;
const NANO_USD = 100 * TOKENS;
/** What a budget sets aside for it: a token for each byte, and 64 for the template. */
const RESERVED_NANO_USD = 100 * ('two words'.length + 64);
const LEASE_MS = 15_000;

const missing = postgresMissing ?? ownRedisMissing;

describe.skipIf(missing !== undefined)('two servers with counters in Redis', () => {
  let postgres: PostgresServer;
  let redis: RedisServer;
  let upstream: FakeUpstream;
  let store: string;
  let servers: RunningServer[];
  beforeAll(async () => {
    [postgres, redis, upstream] = await Promise.all([sharedPostgres(), startRedis(), startFakeUpstream('openai')]);
    store = await postgres.createDatabase();
    const env = {
      BAOBAB_STORE: store,
      BAOBAB_COUNTERS: redis.url,
      BAOBAB_LOG_FORMAT: 'json',
      BAOBAB_LIMITS_EMBEDDING_RPM: '10000000',
      BAOBAB_LIMITS_EMBEDDING_TPM: '1000000000',
      BAOBAB_UPSTREAMS: JSON.stringify([{ model: MODEL, url: upstream.url }]),
    };
    servers = await Promise.all([startServer({ env }), startServer({ env })]);
  });
  afterAll(async () => {
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
    await Promise.all([postgres.stop(), redis.stop(), upstream.close()]);
  });

  const server = (index: number): RunningServer => servers[index % 2] as RunningServer;

  const post = (index: number, path: string, body: object, secret = API_KEY) =>
    postJson(server(index), path, body, { secret });

  async function newKey(limits: object): Promise<{ secret: string }> {
    const created = await post(0, '/v1/admin/keys', { account: 'default', name: 'limited', ...limits });
    expect(created.status).toBe(200);
    const { secret } = (await created.json()) as { secret: string };
    await expect.poll(() => modelsStatus(1, secret)).toBe(200);
    return { secret };
  }
  const modelsStatus = async (index: number, secret: string) => {
    const headers = { authorization: `Bearer ${secret}` };
    return (await fetch(`${server(index).address}/v1/models`, { headers })).status;
  };

  async function ask(index: number, secret: string): Promise<{ status: number; code?: string | undefined }> {
    const answer = await post(index, '/v1/embeddings', { model: MODEL, input: 'two words' }, secret);
    const { error } = (await answer.json()) as { error?: { code: string } };
    return { status: answer.status, code: error?.code };
  }

  /** Sends requests to both servers until each of ten lanes has been refused. Returns how many were answered. */
  async function useUp(secret: string, code: string): Promise<number> {
    let answered = 0;
    const lane = async (index: number) => {
      for (;;) {
        const answer = await ask(index, secret);
        if (answer.status !== 200) {
          expect(answer).toEqual({ status: 429, code });
          return;
        }
        answered += 1;
      }
    };
    await Promise.all(Array.from({ length: 10 }, (_, index) => lane(index)));
    return answered;
  }

  async function spentNanoUsd(): Promise<number> {
    const client = new Client(store);
    await client.connect();
    const { rows } = await client
      .query('select coalesce(sum(cost_nano_usd), 0)::int as spent from ledger')
      .finally(() => client.end());
    return rows[0]?.spent;
  }

  it('answer as many requests a minute as the key may send, together', async () => {
    const { secret } = await newKey({ rpm: 300 });
    const start = performance.now();
    const answered = await useUp(secret, 'rpm_exceeded');
    const refilled = Math.ceil(((performance.now() - start) / 60_000) * 300);
    expect(answered).toBeGreaterThanOrEqual(300);
    expect(answered).toBeLessThanOrEqual(300 + refilled);
  });

  it('answer as many tokens a minute as the key may use, together', async () => {
    const { secret } = await newKey({ tpm: 1_200 });
    const start = performance.now();
    const tokens = TOKENS * (await useUp(secret, 'tpm_exceeded'));
    const refilled = Math.ceil(((performance.now() - start) / 60_000) * 1_200);
    expect(tokens).toBeGreaterThanOrEqual(0.99 * 1_200);
    expect(tokens).toBeLessThanOrEqual(1_200 + refilled);
  });

  it('spend a budget together, and no more', async () => {
    const budget = 200 * NANO_USD;
    const { secret } = await newKey({ monthly_budget_usd: budget / 1e9 });
    const before = await spentNanoUsd();
    const answered = await useUp(secret, 'budget_exceeded');
    expect((await spentNanoUsd()) - before).toBe(answered * NANO_USD);
    expect(answered * NANO_USD).toBeLessThanOrEqual(budget);
    // What is left could not be reserved once more.
    expect(budget - answered * NANO_USD).toBeLessThan(RESERVED_NANO_USD);
  });

  it('answer requests while Redis stops, hangs and starts again', async () => {
    const statuses: number[] = [];
    let isDone = false;
    let slowest = 0;
    const lane = async (index: number) => {
      while (!isDone) {
        const start = performance.now();
        statuses.push((await ask(index, API_KEY)).status);
        slowest = Math.max(slowest, performance.now() - start);
      }
    };
    const lanes = Array.from({ length: 8 }, (_, index) => lane(index));
    const readiness = async (index: number) => (await fetch(`${server(index).address}/readyz`)).json();
    const isReady = (status: string) =>
      expect.poll(async () => Promise.all([readiness(0), readiness(1)])).toMatchObject([{ status }, { status }]);
    const metricsOf = async (index: number) => (await fetch(`${server(index).address}/metrics`)).text();
    /** They learn of each other with the next heartbeat. */
    const knowEachOther = () =>
      expect
        .poll(async () =>
          (await Promise.all([metricsOf(0), metricsOf(1)])).map(
            (text) => /^baobab_counters_replicas (\d)/m.exec(text)?.[1],
          ),
        )
        .toEqual(['2', '2']);
    const served = () => {
      const count = statuses.length;
      return expect.poll(() => statuses.length).toBeGreaterThan(count + 50);
    };
    try {
      for (let turn = 0; turn < 2; turn += 1) {
        await served();
        await knowEachOther();
        await redis.kill();
        await isReady('degraded');
        await served();
        const metrics = await metricsOf(turn);
        expect(metrics).toContain('baobab_counters_shared 0');
        expect(metrics).toContain('baobab_counters_replicas 2');
        await redis.start();
        await isReady('ready');
      }
      redis.freeze();
      await isReady('degraded');
      redis.thaw();
      await isReady('ready');
      await served();
    } finally {
      isDone = true;
    }
    await Promise.all(lanes);
    expect([...new Set(statuses)]).toEqual([200]);
    expect(slowest).toBeLessThan(5_000);
    for (const { output } of servers) expect(output()).not.toMatch(/"level":50/);
  });

  it('give back what a killed server held within its lease', async () => {
    const { secret } = await newKey({ concurrency: 4 });
    const seen = upstream.requests.length;
    upstream.script.push(...Array.from({ length: 5 }, () => silence));
    const hanging = [0, 0, 1, 1].map((index) => ask(index, secret).catch(() => {}));
    await upstream.until(() => upstream.requests.length === seen + 4);
    const refused = await Promise.all(Array.from({ length: 6 }, (_, index) => ask(index, secret)));
    expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(['concurrency_exceeded']));

    const start = performance.now();
    await server(0).kill();
    upstream.script.length = 0;
    await expect.poll(async () => (await ask(1, secret)).status, { interval: 100, timeout: 60_000 }).toBe(200);
    expect(performance.now() - start).toBeLessThan(LEASE_MS + 5_000);
    // Two of the other server still run, so two of four slots are free.
    upstream.script.push(silence, silence);
    const more = [1, 1].map((index) => ask(index, secret).catch(() => {}));
    await upstream.until(() => upstream.script.length === 0);
    expect(await ask(1, secret)).toEqual({ status: 429, code: 'concurrency_exceeded' });
    await server(1).kill();
    await Promise.all([...hanging, ...more]);
  });
});
