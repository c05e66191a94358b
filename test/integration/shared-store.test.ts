import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LOCKS } from '../../packages/server/src/adapters/sql/postgres/locks.ts';
import { baobab } from '../acceptance/command.ts';
import { type PostOptions, postJson } from '../acceptance/post-json.ts';
import { type RunningServer, startServer } from '../acceptance/start-server.ts';
import { startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { freePort } from '../fixtures/free-port.ts';
import { PASSWORD, type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';

const MODEL = 'intfloat/e5-mistral-7b-instruct';
const LANES = 6;
const ANSWERS_BEFORE_THE_KILL = 60;
/** Fewer words belong to requests without an idempotency key. */
const WORDS_OF_KEYED = 50;

interface BilledRow {
  billing_id: string;
  request_id: string;
  prompt_tokens: string;
}

describe.skipIf(postgresMissing !== undefined)('servers on one PostgreSQL', () => {
  const running = new AsyncDisposableStack();
  let postgres: PostgresServer;
  let store: string;
  let directory: string;
  let servers: [RunningServer, RunningServer, RunningServer];
  let firstKeys: readonly string[];
  beforeAll(async () => {
    postgres = running.adopt(await sharedPostgres(), (started) => started.stop());
    const upstream = await startFakeUpstream('openai', { firstByteDelayMs: 5, contextLength: 100_000 });
    running.defer(() => upstream.close());
    store = await postgres.createDatabase();
    directory = running.use(await mkdtempDisposable(join(tmpdir(), 'baobab-shared-'))).path;
    const config = join(directory, 'shared.yaml');
    await writeFile(
      config,
      [
        'log: { level: info, format: json }',
        'limits: { embedding: { rpm: 10000000, tpm: 1000000000 } }',
        `upstreams: [{ model: ${MODEL}, url: ${upstream.url} }]`,
      ].join('\n'),
    );
    // At the same time, on an empty database.
    const start = async () =>
      running.use(
        await startServer({ env: { BAOBAB_STORE: store, BAOBAB_FIRST_KEY: '' }, args: ['--config', config] }),
      );
    servers = await Promise.all([start(), start(), start()]);
    firstKeys = servers.flatMap((server) => server.output().match(/bao_sk_\w+/) ?? []);
  });
  afterAll(() => running.disposeAsync());

  const post = (server: RunningServer, path: string, body: unknown, options: PostOptions = {}) =>
    postJson(server, path, body, { secret: firstKeys[0] as string, ...options });
  const embed = (server: RunningServer, words: number, options: PostOptions = {}) =>
    post(
      server,
      '/v1/embeddings',
      { model: MODEL, input: Array.from({ length: words }, () => 'w').join(' ') },
      options,
    );

  /** Repeats a request until it has the awaited status. Returns the milliseconds that took. */
  async function timeUntil(awaited: number, server: RunningServer, secret: string): Promise<number> {
    const start = performance.now();
    await expect.poll(async () => (await embed(server, 1, { secret })).status, { interval: 10 }).toBe(awaited);
    return performance.now() - start;
  }

  async function billed(): Promise<BilledRow[]> {
    const client = new Client(store);
    await client.connect();
    const { rows } = await client
      .query<BilledRow>('select billing_id, request_id, prompt_tokens from ledger')
      .finally(() => client.end());
    return rows;
  }

  it('make one first key when they start at the same time', async () => {
    expect(firstKeys).toHaveLength(1);
    for (const { address } of servers) {
      const keys = await fetch(`${address}/v1/admin/keys`, { headers: { authorization: `Bearer ${firstKeys[0]}` } });
      expect(await keys.json()).toMatchObject({ data: [{ name: 'first key' }] });
    }
  });

  it('change keys for each other within a second', async () => {
    const [first, second] = servers;
    const turns: { createdMs: number; revokedMs: number }[] = [];
    // A busy machine may delay single turns.
    for (let turn = 0; turn < 5; turn += 1) {
      const created = await post(first, '/v1/admin/keys', { account: 'default', name: `key ${turn}` });
      const { id, secret } = (await created.json()) as { id: string; secret: string };
      const createdMs = await timeUntil(200, second, secret);
      expect((await post(first, `/v1/admin/keys/${id}/revoke`, {})).status).toBe(200);
      turns.push({ createdMs, revokedMs: await timeUntil(403, second, secret) });
    }
    expect(Math.min(...turns.map(({ createdMs }) => createdMs))).toBeLessThan(1_000);
    expect(Math.min(...turns.map(({ revokedMs }) => revokedMs))).toBeLessThan(1_000);
    for (const server of servers) expect(server.output()).not.toContain(PASSWORD);
  });

  it('make no key when the port is taken while they start', async () => {
    const url = await postgres.createDatabase();
    const observer = new Client(url);
    await observer.connect();
    // The server checks the port, then asks for this lock until it gets it.
    await observer.query('select pg_advisory_lock($1)', [LOCKS.migration]);
    const port = await freePort();
    const failed = baobab(directory, ['serve', '--port', `${port}`], { BAOBAB_STORE: url });
    const waits =
      "select 1 from pg_stat_activity where datname = current_database() and (query like '%try_advisory_xact_lock%' or query = 'rollback') and pid <> pg_backend_pid()";
    await expect.poll(async () => (await observer.query(waits)).rowCount).toBe(1);
    const taken = createServer().listen(port, '127.0.0.1');
    await once(taken, 'listening');
    await observer.query('select pg_advisory_unlock($1)', [LOCKS.migration]);
    expect(await failed).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: expect.stringContaining(`port ${port} of 127.0.0.1 is in use`),
    });
    expect((await observer.query('select id from api_keys')).rows).toEqual([]);
    taken.close();
    await observer.end();
  });

  it('replay large answers of each other', async () => {
    const [first, second] = servers;
    const body = { model: MODEL, input: Array.from({ length: 2_000 }, (_, index) => `text ${index}`) };
    const key = randomUUID();
    const answer = await post(first, '/v1/embeddings', body, { key });
    const text = await answer.text();
    expect([answer.status, text.length > 150_000]).toEqual([200, true]);
    const replay = await post(second, '/v1/embeddings', body, { key });
    expect([replay.status, replay.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
    expect(await replay.text()).toBe(text);
  });

  it('bill every acknowledged request once when one of them is killed', async () => {
    const [victim, survivor] = servers;
    const earlier = new Set((await billed()).map((row) => row.billing_id));
    const acknowledged: string[] = [];
    const keyed: { key: string; words: number }[] = [];
    let [sent, isKilled] = [0, false];

    async function ask(server: RunningServer, words: number, key?: string): Promise<void> {
      sent += 1;
      const answer = await embed(server, words, key === undefined ? {} : { key });
      await answer.arrayBuffer();
      expect(answer.status).toBe(200);
      if (key === undefined) acknowledged.push(answer.headers.get('x-request-id') ?? '');
    }
    async function lane(server: RunningServer): Promise<void> {
      while (!isKilled) await ask(server, 1 + (sent % 9));
    }
    /** Sends a request to the server that is killed and repeats it at the other one, as a load balancer's client does. */
    async function keyedLane(): Promise<void> {
      while (!isKilled) {
        const request = { key: randomUUID(), words: WORDS_OF_KEYED + keyed.length };
        keyed.push(request);
        await ask(victim, request.words, request.key).catch(() => ask(survivor, request.words, request.key));
      }
    }
    const lanes = Array.from({ length: LANES }, () => [
      lane(survivor),
      keyedLane(),
      lane(victim).catch((error: unknown) => {
        if (!(error instanceof TypeError)) throw error;
      }),
    ]).flat();
    await expect.poll(() => acknowledged.length, { interval: 5 }).toBeGreaterThan(ANSWERS_BEFORE_THE_KILL);
    await victim.kill();
    isKilled = true;
    await Promise.all(lanes);

    const all = await billed();
    const rows = all.filter((row) => !earlier.has(row.billing_id));
    expect(new Set(rows.map((row) => row.billing_id)).size).toBe(rows.length);
    expect(rows.length).toBeLessThanOrEqual(sent);
    const requests = Map.groupBy(rows, (row) => row.request_id);
    for (const id of acknowledged) expect(requests.get(id)).toHaveLength(1);
    // Every word is a token, and the upstream adds two.
    const tokens = rows.map((row) => Number(row.prompt_tokens)).filter((count) => count >= WORDS_OF_KEYED + 2);
    expect(tokens.toSorted((a, b) => a - b)).toEqual(keyed.map(({ words }) => words + 2));

    const usage = await fetch(`${survivor.address}/v1/usage?start=2026-01-01`, {
      headers: { authorization: `Bearer ${firstKeys[0]}` },
    });
    expect(await usage.json()).toMatchObject({ totals: { requests: all.length } });
  });
});
