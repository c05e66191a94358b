import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { baobab } from '../acceptance/command.ts';
import { API_KEY, type RunningServer, startServer } from '../acceptance/start-server.ts';
import { type FakeUpstream, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { type S3Server, s3Missing, startS3 } from '../fixtures/s3-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';

const MODEL = 'intfloat/e5-mistral-7b-instruct';
const LINES = 300;
const SERVERS = 3;
const LINES_BEFORE_THE_KILL = 24;
const TAKE_OVER_MS = 30_000;
/** Servers go by the time of the database, so the clock of this one must not matter. */
const AHEAD = 1;
const AHEAD_MS = 90_000;
const SHIFTED_CLOCK = join(import.meta.dirname, '../fixtures/shifted-clock.mjs');

const missing = postgresMissing ?? s3Missing;

interface BatchBody {
  id: string;
  status: string;
  output_file_id: string | null;
  request_counts: { total: number; completed: number; failed: number };
}

const headers = { authorization: `Bearer ${API_KEY}` };
const customIds = Array.from({ length: LINES }, (_, index) => `line-${index}`);
const inputOf = ({ body }: { body: unknown }) => [(body as { input: string | string[] }).input].flat()[0];

describe.skipIf(missing !== undefined)('a batch on several servers', () => {
  let postgres: PostgresServer;
  let s3: S3Server;
  let store: string;
  /** One upstream for each server, so that it is known which one ran a line. */
  let upstreams: FakeUpstream[];
  let servers: RunningServer[];
  beforeAll(async () => {
    [postgres, s3] = await Promise.all([sharedPostgres(), startS3()]);
    store = await postgres.createDatabase();
    upstreams = await Promise.all(Array.from({ length: SERVERS }, () => startFakeUpstream('openai')));
    const env = {
      ...s3.env,
      BAOBAB_STORE: store,
      BAOBAB_BLOBS: `s3://${s3.bucket}/batches-${Date.now()}`,
      BAOBAB_BLOBS_ENDPOINT: s3.endpoint,
      BAOBAB_LOG_FORMAT: 'json',
      BAOBAB_BATCHES_CONCURRENCY: '4',
    };
    servers = await Promise.all(
      upstreams.map(({ url }, index) =>
        startServer({
          env: {
            ...env,
            BAOBAB_UPSTREAMS: JSON.stringify([{ model: MODEL, url }]),
            ...(index === AHEAD && { SHIFT_CLOCK_MS: `${AHEAD_MS}` }),
          },
          nodeFlags: index === AHEAD ? ['--import', SHIFTED_CLOCK] : [],
        }),
      ),
    );
  });
  afterEach(() => {
    for (const upstream of upstreams) {
      upstream.requests.length = 0;
      upstream.behaviour.hold = undefined;
    }
  });
  afterAll(async () => {
    await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
    await Promise.all([postgres.stop(), s3.stop(), ...upstreams.map((upstream) => upstream.close())]);
  });

  const server = (index: number) => servers[index] as RunningServer;
  const upstream = (index: number) => upstreams[index] as FakeUpstream;

  async function order(): Promise<string> {
    const lines = customIds.map((custom_id, index) =>
      JSON.stringify({
        custom_id,
        method: 'POST',
        url: '/v1/embeddings',
        body: { model: MODEL, input: `text ${index}` },
      }),
    );
    const body = new FormData();
    body.set('purpose', 'batch');
    body.set('file', new Blob([lines.join('\n')]), 'input.jsonl');
    const { address } = server(0);
    const file = await fetch(`${address}/v1/files`, { method: 'POST', headers, body });
    const { id } = (await file.json()) as { id: string };
    const created = await fetch(`${address}/v1/batches`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ input_file_id: id, endpoint: '/v1/embeddings', completion_window: '24h' }),
    });
    expect(created.status).toBe(200);
    return ((await created.json()) as BatchBody).id;
  }

  /** As the last server sees it: it is never killed. */
  const get = (path: string) => fetch(`${server(SERVERS - 1).address}${path}`, { headers });
  const batch = async (id: string) => (await (await get(`/v1/batches/${id}`)).json()) as BatchBody;
  const reached = (id: string, status: string) =>
    expect.poll(async () => (await batch(id)).status, { interval: 200 }).toBe(status);

  async function outputIds(id: string): Promise<string[]> {
    const { output_file_id: output } = await batch(id);
    const text = await (await get(`/v1/files/${output}/content`)).text();
    return text
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { custom_id: string }).custom_id);
  }

  /** Lines that are billed, in order. The ledger has one row for each billing id. */
  async function billedIds(id: string): Promise<string[]> {
    const client = new Client(store);
    await client.connect();
    const { rows } = await client
      .query('select billing_id from ledger where billing_id like $1', [`${id}:%`])
      .finally(() => client.end());
    return rows
      .map((row) => Number(row.billing_id.split(':')[1]))
      .toSorted((one, other) => one - other)
      .map((line) => `line-${line - 1}`);
  }

  /** Lets no upstream answer before every server runs lines. */
  function holdUntilAllWork(): { opened: Promise<void> } {
    const { promise: opened, resolve } = Promise.withResolvers<void>();
    for (const each of upstreams) {
      each.behaviour.hold = () => {
        if (upstreams.every(({ requests }) => requests.length > 0)) resolve();
        return opened;
      };
    }
    return { opened };
  }

  it('is worked on by a server whose clock is ahead, which says so', async () => {
    const problem = 'the clock of this machine is 90 s ahead of that of the database, whose time is used';
    const readiness = async (index: number) => (await fetch(`${server(index).address}/readyz`)).json();
    expect(await readiness(AHEAD)).toEqual({ status: 'degraded', reasons: [problem], since: expect.any(String) });
    expect(await readiness(0)).toEqual({ status: 'ready', reasons: [] });
    await expect.poll(() => server(AHEAD).output()).toContain(problem);
    expect(server(0).output()).not.toContain('the clock of this machine');

    const listed = async () => ((await (await get('/v1/admin/servers')).json()) as { data: object[] }).data;
    await expect.poll(async () => (await listed()).length).toBe(SERVERS);
    const right = { object: 'server', status: 'ready', problems: [], version: expect.any(String) };
    const wrong = { ...right, status: 'degraded', problems: [{ reason: problem, since: expect.any(String) }] };
    const isWrong = (each: object) => (each as { status: string }).status !== 'ready';
    const all = await listed();
    expect(all.filter(isWrong)).toEqual([expect.objectContaining(wrong)]);
    const { stdout } = await baobab(server(0).dataDir, ['status'], { BAOBAB_STORE: store });
    expect(stdout.match(/ ready /g)).toHaveLength(SERVERS - 1);
    expect(stdout).toMatch(/ degraded .* 90 s ahead .*the clock of this machine is 90 s ahead .* \(since 2/);
    expect(all.filter((each) => !isWrong(each))).toEqual([
      expect.objectContaining(right),
      expect.objectContaining(right),
    ]);
  });

  it('is worked on by all of them, every line once', async () => {
    const { opened } = holdUntilAllWork();
    const id = await order();
    await opened;
    await reached(id, 'completed');
    expect((await batch(id)).request_counts).toMatchObject({ total: LINES, completed: LINES, failed: 0 });
    expect(await outputIds(id)).toEqual(customIds);
    expect(await billedIds(id)).toEqual(customIds);
    const inputs = upstreams.flatMap(({ requests }) => requests.map(inputOf));
    expect(inputs).toHaveLength(LINES);
    expect(new Set(inputs).size).toBe(LINES);
  });

  it('is cancelled on all of them', async () => {
    const { opened } = holdUntilAllWork();
    const id = await order();
    const cancelled = opened.then(() =>
      fetch(`${server(1).address}/v1/batches/${id}/cancel`, { method: 'POST', headers }),
    );
    for (const each of upstreams) {
      const { hold } = each.behaviour;
      each.behaviour.hold = () => Promise.all([hold?.(), cancelled]).then(() => {});
    }
    expect((await cancelled).status).toBe(200);
    await reached(id, 'cancelled');
    const { completed, failed } = (await batch(id)).request_counts;
    expect(failed).toBe(0);
    const output = await outputIds(id);
    expect(output).toHaveLength(completed);
    expect(await billedIds(id)).toEqual(output);
  });

  it('is finished by the others when one is killed, every line once', async () => {
    const { promise: killed, resolve: kill } = Promise.withResolvers<void>();
    const victim = upstream(0);
    victim.behaviour.hold = async () => {
      if (victim.requests.length > LINES_BEFORE_THE_KILL) await killed;
    };
    // The others leave it enough lines.
    for (const other of upstreams.slice(1)) {
      other.behaviour.hold = () => victim.until(() => victim.requests.length > LINES_BEFORE_THE_KILL);
    }
    const id = await order();
    await victim.until(() => victim.requests.length > LINES_BEFORE_THE_KILL);
    await server(0).kill();
    const killedAt = performance.now();
    await victim.until(() => victim.requests.some(({ aborted }) => aborted));
    const lost = victim.requests.filter(({ aborted }) => aborted).map(inputOf);
    kill();
    const taken = () => new Set(upstreams.slice(1).flatMap(({ requests }) => requests.map(inputOf)));
    await expect.poll(() => lost.some((input) => taken().has(input)), { interval: 50 }).toBe(true);
    expect(performance.now() - killedAt).toBeLessThan(TAKE_OVER_MS);
    await reached(id, 'completed');
    expect((await batch(id)).request_counts).toMatchObject({ total: LINES, completed: LINES, failed: 0 });
    expect(await outputIds(id)).toEqual(customIds);
    expect(await billedIds(id)).toEqual(customIds);
  });
});
