import { mkdir, mkdtempDisposable, readdir, rename } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { baobab } from '../acceptance/command.ts';
import { postJson } from '../acceptance/post-json.ts';
import { API_KEY, type RunningServer, type StartOptions, startServer } from '../acceptance/start-server.ts';
import { type FakeUpstream, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { type OwnPostgres, ownPostgresMissing, startOwnPostgres } from '../fixtures/postgres-server.ts';
import { ownRedisMissing, startRedis } from '../fixtures/redis-server.ts';

const CHAT = 'qwen/qwen2.5-0.5b-instruct';
const TEXT = 'Hello from the other side.';
/** 9 tokens at 30 and 6 at 60. */
const NANO_USD = 9 * 30 + 6 * 60;

interface Ended {
  id: string;
  status: number;
  text: string;
}

describe.skipIf(ownPostgresMissing !== undefined)('what runs when PostgreSQL goes away', () => {
  let postgres: OwnPostgres;
  let upstream: FakeUpstream;
  let store: string;
  /** Answers of the upstream wait until it is called. */
  let answer: () => void;
  let isAway = false;
  beforeAll(async () => {
    [postgres, upstream] = await Promise.all([startOwnPostgres(), startFakeUpstream('openai')]);
  });
  afterAll(() => Promise.all([postgres.stop(), upstream.close()]));
  beforeEach(async () => {
    if (isAway) await returns();
    store = await postgres.createDatabase();
    upstream.behaviour.hold = undefined;
  });

  async function returns(): Promise<void> {
    await postgres.start();
    isAway = false;
  }

  const start = (options: StartOptions = {}) =>
    startServer({
      ...options,
      env: {
        BAOBAB_STORE: store,
        BAOBAB_STORE_PATIENCE_SECONDS: '0',
        BAOBAB_LOG_FORMAT: 'json',
        BAOBAB_UPSTREAMS: JSON.stringify([{ model: CHAT, url: upstream.url, kind: 'openai' }]),
        ...options.env,
      },
    });

  const hold = () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    upstream.behaviour.hold = () => promise;
    answer = resolve;
  };

  const messages = [{ role: 'user', content: 'hello' }];
  const send = async (
    server: RunningServer,
    path: string,
    body: object,
    options: { key?: string; secret?: string } = {},
  ): Promise<Ended> => {
    const reply = await postJson(server, path, { model: CHAT, ...body }, options);
    return { id: reply.headers.get('x-request-id') ?? '', status: reply.status, text: await reply.text() };
  };
  const chat = (server: RunningServer, secret = API_KEY) =>
    send(server, '/v1/chat/completions', { messages, max_tokens: 10 }, { secret });
  const stream = (server: RunningServer) => send(server, '/v1/chat/completions', { messages, stream: true });

  /** Starts requests that run while PostgreSQL stops, and lets them end. */
  async function duringOutage<T>(requests: readonly (() => Promise<T>)[]): Promise<T[]> {
    hold();
    const before = upstream.requests.length;
    const running = requests.map((request) => request());
    await upstream.until(() => upstream.requests.length === before + requests.length);
    isAway = true;
    await postgres.halt('SIGQUIT');
    answer();
    return Promise.all(running);
  }

  const isWhole = ({ status, text }: Ended): boolean => {
    if (!text.startsWith('data:')) return status === 200 && text.includes(TEXT);
    const words = [...text.matchAll(/"content":"([^"]*)"/g)].map(([, word]) => word).join('');
    return words === TEXT && text.endsWith('data: [DONE]\n\n') && !text.includes('error');
  };

  async function rows(): Promise<{ billing_id: string; cost: number }[]> {
    const client = new Client(store);
    await client.connect();
    const query = 'select billing_id, cost_nano_usd::int as cost from ledger order by billing_id';
    return (await client.query(query).finally(() => client.end())).rows;
  }
  const billed = async () => (await rows()).map(({ billing_id: id }) => id);
  const idsOf = (answers: readonly Ended[]) => answers.map(({ id }) => id).sort();
  const metrics = async ({ address }: RunningServer) => (await fetch(`${address}/metrics`)).text();
  const readiness = async ({ address }: RunningServer) => (await fetch(`${address}/readyz`)).json();

  it('is answered whole and billed once, when PostgreSQL is back; nothing new runs', async () => {
    await using server = await start();
    const chats = Array.from({ length: 8 }, (_, index) => (index % 2 ? () => stream(server) : () => chat(server)));
    const answers = await duringOutage(chats);
    for (const each of answers) expect(each).toSatisfy(isWhole);
    expect(await metrics(server)).toContain('baobab_journal_rows 8\n');
    await expect
      .poll(() => readiness(server))
      .toMatchObject({
        status: 'not ready',
        reasons: ['the database does not answer', '8 ledger rows wait in the journal of this server for PostgreSQL'],
      });
    const ran = upstream.requests.length;
    expect(await chat(server)).toMatchObject({ status: 503 });
    expect(upstream.requests.length).toBe(ran);

    await returns();
    await expect.poll(billed).toEqual(idsOf(answers));
    await expect.poll(() => readiness(server)).toMatchObject({ status: 'ready' });
    const later = await chat(server);
    expect(await billed()).toEqual(idsOf([...answers, later]));
    expect(await metrics(server)).toContain('baobab_journal_rows 0\n');
    expect(server.output()).toContain('moved ledger rows from the journal to PostgreSQL');
  });

  it('is answered whole and billed once when the commit hangs, and succeeds in the end', async () => {
    const alter = async (sql: string) => {
      const client = new Client(postgres.url);
      await client.connect();
      for (const text of [sql, 'select pg_reload_conf()']) await client.query(text);
      await client.end();
    };
    await using server = await start();
    hold();
    const before = upstream.requests.length;
    const running = [chat(server), stream(server)];
    await upstream.until(() => upstream.requests.length === before + running.length);
    // Commits are there, and wait for a standby that is gone.
    await alter(`alter system set synchronous_standby_names = 'nobody'`);
    let answers: Ended[];
    try {
      answer();
      answers = await Promise.all(running);
    } finally {
      await alter('alter system reset synchronous_standby_names');
    }
    for (const each of answers) expect(each).toSatisfy(isWhole);
    await expect.poll(() => readiness(server)).toEqual({ status: 'ready', reasons: [] });
    expect(await billed()).toEqual(idsOf(answers));
    expect(server.output()).toContain('moved ledger rows from the journal to PostgreSQL');
  });

  it.each(['kill', 'stop'] as const)('is billed once by the next start after a %s', async (end) => {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-journal-'));
    const dataDir = directory.path;
    const first = await start({ dataDir });
    const answers = await duringOutage([() => chat(first), () => stream(first), () => chat(first)]);
    for (const each of answers) expect(each).toSatisfy(isWhole);
    await first[end]();
    await returns();
    expect(await billed()).toEqual([]);
    await using _again = await start({ dataDir });
    expect(await billed()).toEqual(idsOf(answers));
  });

  it('is billed once by journal replay with the disk of a lost machine', async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-journal-'));
    const dataDir = directory.path;
    const replay = (env: Record<string, string>) => baobab(dataDir, ['journal', 'replay', dataDir], env);
    const lost = await start({ dataDir });
    const answers = await duringOutage([() => chat(lost), () => stream(lost)]);
    expect(await replay({ BAOBAB_STORE: store })).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('is running on the data directory'),
    });
    await lost.kill();
    await returns();
    const BAOBAB_STORE = await postgres.createDatabase();
    expect(await replay({ BAOBAB_STORE })).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('accounts that this database does not have'),
    });
    const { stdout } = await replay({ BAOBAB_STORE: store });
    expect(stdout).toBe(`2 ledger rows moved from ${dataDir}, 2 of them new\n`);
    expect(await billed()).toEqual(idsOf(answers));
    expect((await replay({ BAOBAB_STORE: store })).stdout).toBe(`no ledger rows wait in ${dataDir}\n`);
  });

  it('ends with an error if it has an idempotency key or is stored, and is not billed', async () => {
    await using server = await start();
    const [keyed, stored, unstored] = await duringOutage([
      () => send(server, '/v1/chat/completions', { messages }, { key: 'once' }),
      () => send(server, '/v1/responses', { input: 'hello' }),
      () => send(server, '/v1/responses', { input: 'hello', store: false }),
    ]);
    expect(keyed).toMatchObject({ status: 503, text: expect.stringContaining('storage_unavailable') });
    expect(stored).toMatchObject({ status: 503, text: expect.stringContaining('storage_unavailable') });
    expect(unstored?.status).toBe(200);
    await returns();
    await expect.poll(billed).toEqual([unstored?.id]);
    const retry = await send(server, '/v1/chat/completions', { messages }, { key: 'once' });
    expect(retry).toSatisfy(isWhole);
    expect(await rows()).toHaveLength(2);
  });

  it('never takes an account over its budget', async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-journal-'));
    const dataDir = directory.path;
    const first = await start({ dataDir });
    const limits = { monthly_budget_usd: (6 * NANO_USD) / 1e9 };
    const created = await postJson(first, '/v1/admin/keys', { account: 'default', name: 'limited', ...limits });
    const { secret } = (await created.json()) as { secret: string };
    expect(await chat(first, secret)).toSatisfy(isWhole);
    const chats = Array.from({ length: 2 }, () => () => chat(first, secret));
    for (const each of await duringOutage(chats)) expect(each).toSatisfy(isWhole);
    await first.kill();
    await returns();
    await using second = await start({ dataDir });
    let status = 200;
    while (status === 200) ({ status } = await chat(second, secret));
    expect(status).toBe(429);
    const spent = (await rows()).reduce((sum, { cost }) => sum + cost, 0);
    expect(spent).toBeGreaterThanOrEqual(3 * NANO_USD);
    expect(spent).toBeLessThanOrEqual(6 * NANO_USD);
  });

  it.skipIf(ownRedisMissing !== undefined)(
    'counts for a budget that others have read from the ledger before it came',
    async () => {
      await using stack = new AsyncDisposableStack();
      const redis = stack.adopt(await startRedis(), (started) => started.stop());
      const dataDir = stack.use(await mkdtempDisposable(join(tmpdir(), 'baobab-journal-'))).path;
      const env = { BAOBAB_COUNTERS: redis.url, BAOBAB_LIMITS_CHAT_RPM: '100000' };
      const first = await start({ dataDir, env });
      const second = stack.use(await start({ env }));
      // What waits costs more than what is set aside for one request, so that another one would fit in if it were forgotten.
      const [waiting, budget] = [8, 45 * NANO_USD];
      const limits = { monthly_budget_usd: budget / 1e9 };
      const created = await postJson(first, '/v1/admin/keys', { account: 'default', name: 'limited', ...limits });
      const { secret } = (await created.json()) as { secret: string };
      const ask = async () => (await chat(second, secret)).status;
      const useUp = async () => {
        let status = 200;
        while (status === 200) status = await ask();
        expect(status).toBe(429);
      };
      await expect.poll(ask).toBe(200);

      // One more runs when the server is killed: whether it was billed is then asked of the ledger.
      const [{ promise: held, resolve: release }, before] = [Promise.withResolvers<void>(), upstream.requests.length];
      upstream.behaviour.hold = () =>
        upstream.requests.length === before + waiting + 1 ? new Promise(() => {}) : held;
      const running = Array.from({ length: waiting }, () => chat(first, secret));
      await upstream.until(() => upstream.requests.length === before + waiting);
      void chat(first, secret).catch(() => {});
      await upstream.until(() => upstream.requests.length === before + waiting + 1);
      isAway = true;
      await postgres.halt('SIGQUIT');
      release();
      for (const each of await Promise.all(running)) expect(each).toSatisfy(isWhole);
      await first.kill();
      upstream.behaviour.hold = undefined;
      await returns();

      await expect.poll(ask).toBe(200);
      await useUp();
      // The lease of the dead server ends: its budgets are read from the ledger, where its rows are missing.
      await expect.poll(ask).toBe(200);
      stack.use(await start({ dataDir, env }));
      await useUp();
      const spent = (await rows()).reduce((sum, { cost }) => sum + cost, 0);
      expect(spent).toBeGreaterThan(budget / 2);
      expect(spent).toBeLessThanOrEqual(budget);
    },
  );

  it('ends with an error when store_journal is off, and what an earlier start has kept is billed', async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-journal-'));
    const dataDir = directory.path;
    const first = await start({ dataDir });
    const kept = await duringOutage([() => chat(first)]);
    await first.kill();
    await returns();
    // As if it had been a worker, of more than there are now.
    await mkdir(join(dataDir, 'workers', '3'), { recursive: true });
    for (const name of ['baobab.postgres-ledger-0', 'baobab.postgres-ledger-1']) {
      await rename(join(dataDir, name), join(dataDir, 'workers', '3', name));
    }
    await using server = await start({ dataDir, env: { BAOBAB_STORE_JOURNAL: 'false' } });
    expect(await billed()).toEqual(idsOf(kept));
    expect((await readdir(dataDir, { recursive: true })).filter((name) => name.includes('-ledger-'))).toEqual([]);
    const [whole, streamed] = await duringOutage([() => chat(server), () => stream(server)]);
    expect(whole).toMatchObject({ status: 503 });
    expect(streamed?.text).toContain('storage_unavailable');
    await returns();
    await expect.poll(() => readiness(server)).toMatchObject({ status: 'ready' });
    expect(await billed()).toEqual(idsOf(kept));
  });
});
