import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { API_KEY, type RunningServer, startServer } from '../acceptance/start-server.ts';
import { type FakeUpstream, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { type OwnPostgres, ownPostgresMissing, startOwnPostgres } from '../fixtures/postgres-server.ts';
import { ownRedisMissing, startRedis } from '../fixtures/redis-server.ts';
import { s3Missing, startS3 } from '../fixtures/s3-server.ts';

const CHAT = 'qwen/qwen2.5-0.5b-instruct';
const EMBEDDING = 'baai/bge-m3';
const LANES = 8;

interface Usage {
  totals: { requests: number };
}

interface Caller {
  get(path: string): Promise<Response>;
  post(path: string, body: object, headers?: Record<string, string>): Promise<Response>;
  upload(headers?: Record<string, string>): Promise<Response>;
}

function callerOf({ address }: RunningServer): Caller {
  const authorization = `Bearer ${API_KEY}`;
  return {
    get: (path) => fetch(address + path, { headers: { authorization } }),
    post: (path, body, headers = {}) =>
      fetch(address + path, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      }),
    upload(headers = {}) {
      const body = new FormData();
      body.set('purpose', 'batch');
      body.set('file', new Blob([batchLine()]), 'lines.jsonl');
      return fetch(`${address}/v1/files`, { method: 'POST', headers: { authorization, ...headers }, body });
    },
  };
}

const batchLine = () =>
  `${JSON.stringify({ custom_id: 'one', method: 'POST', url: '/v1/embeddings', body: { model: EMBEDDING, input: 'a' } })}\n`;

const messages = [{ role: 'user', content: 'hello' }];
const newKey = () => ({ 'idempotency-key': randomUUID() });

/** What the requests below name. */
interface Stored {
  file: string;
  batch: string;
  response: string;
  cookie: string;
}

async function store({ post, upload }: Caller): Promise<Stored> {
  const idOf = async (answer: Promise<Response>) => {
    const { status } = await answer;
    expect(status).toBe(200);
    return ((await (await answer).json()) as { id: string }).id;
  };
  const file = await idOf(upload());
  const session = await post('/v1/sessions', { key: API_KEY });
  return {
    file,
    batch: await idOf(
      post('/v1/batches', { input_file_id: file, endpoint: '/v1/embeddings', completion_window: '24h' }),
    ),
    response: await idOf(post('/v1/responses', { model: CHAT, input: 'hello' })),
    cookie: (session.headers.get('set-cookie') ?? '').split(';')[0] ?? '',
  };
}

/** One request of each kind. */
function requests(server: RunningServer, stored: Stored) {
  const { get, post, upload } = callerOf(server);
  const { file, batch, response, cookie } = stored;
  return {
    chat: () => post('/v1/chat/completions', { model: CHAT, messages }),
    stream: () => post('/v1/chat/completions', { model: CHAT, messages, stream: true }),
    'chat with a key': () => post('/v1/chat/completions', { model: CHAT, messages }, newKey()),
    completion: () => post('/v1/completions', { model: CHAT, prompt: 'hello' }),
    embedding: () => post('/v1/embeddings', { model: EMBEDDING, input: 'a' }),
    'embedding with a key': () => post('/v1/embeddings', { model: EMBEDDING, input: 'a' }, newKey()),
    response: () => post('/v1/responses', { model: CHAT, input: 'hello' }),
    'streamed response': () => post('/v1/responses', { model: CHAT, input: 'hello', stream: true }),
    'background response': () => post('/v1/responses', { model: CHAT, input: 'hello', background: true }),
    'stored response': () => get(`/v1/responses/${response}`),
    conversation: () => post('/v1/conversations', {}),
    message: () => post('/v1/messages', { model: CHAT, max_tokens: 10, messages }),
    'message batch': () =>
      post('/v1/messages/batches', {
        requests: [{ custom_id: 'one', params: { model: CHAT, max_tokens: 10, messages } }],
      }),
    'message batches': () => get('/v1/messages/batches'),
    upload: () => upload(),
    'upload with a key': () => upload(newKey()),
    files: () => get('/v1/files'),
    file: () => get(`/v1/files/${file}`),
    content: () => get(`/v1/files/${file}/content`),
    'new batch': () =>
      post('/v1/batches', { input_file_id: file, endpoint: '/v1/embeddings', completion_window: '24h' }),
    batches: () => get('/v1/batches'),
    batch: () => get(`/v1/batches/${batch}`),
    usage: () => get('/v1/usage?start=2026-01-01&group_by=model'),
    'list of requests': () => get('/v1/requests'),
    performance: () => get('/v1/performance?start=2026-01-01'),
    'own key': () => get('/v1/keys/me'),
    keys: () => get('/v1/keys'),
    'new key': () => post('/v1/admin/keys', { account: 'default', name: 'x' }, newKey()),
    accounts: () => get('/v1/admin/accounts'),
    models: () => get('/v1/models'),
    'sign in': () => post('/v1/sessions', { key: API_KEY }),
    session: () => fetch(`${server.address}/v1/sessions/current`, { headers: { cookie } }),
  } satisfies Record<string, () => Promise<Response>>;
}

interface Seen {
  status: number;
  code: string | undefined;
  retryAfter: string | null;
  message: string | undefined;
  events?: string;
}

async function seen(answer: Response): Promise<Seen> {
  const text = await answer.text();
  const { error } = (text.startsWith('{') ? JSON.parse(text) : {}) as { error?: { code?: string; message?: string } };
  const { status, headers } = answer;
  const problem = { status, code: error?.code, retryAfter: headers.get('retry-after'), message: error?.message };
  return headers.get('content-type')?.startsWith('text/event-stream') ? { ...problem, events: text } : problem;
}

/** Anthropic's shape has no code. */
const isOutage = ({ status, code = 'storage_unavailable' }: Seen) => status === 503 && code === 'storage_unavailable';
const isAnswered = ({ status }: Seen) => status === 200;

const unavailable = (kind: string) => ({
  status: 503,
  code: kind.startsWith('message') ? undefined : 'storage_unavailable',
  retryAfter: '5',
  message: expect.stringContaining('Send the request again in a few seconds'),
});

/** Log lines with a stack. */
const stacks = (server: RunningServer) =>
  server
    .output()
    .split('\n')
    .filter((line) => line.includes('"stack"'))
    .map((line) => JSON.parse(line).msg as string);

let upstreams: FakeUpstream[];
beforeAll(async () => {
  upstreams = await Promise.all([
    startFakeUpstream('vllm'),
    startFakeUpstream('tei', { dimensions: 1024, contextLength: 8192 }),
  ]);
});
afterAll(() => Promise.all(upstreams.map((upstream) => upstream.close())));

async function start(directory: string, env: Record<string, string>, patience = 0): Promise<RunningServer> {
  const config = join(directory, 'outage.yaml');
  const [chat, embedding] = upstreams;
  const limits = '{ rpm: 10000000, tpm: 1000000000 }';
  await writeFile(
    config,
    [
      'log: { level: info, format: json }',
      `store_patience_seconds: ${patience}`,
      `limits: { embedding: ${limits}, chat: ${limits} }`,
      'upstreams:',
      `  - { model: ${CHAT}, url: ${chat?.url}, kind: vllm }`,
      `  - { model: ${EMBEDDING}, url: ${embedding?.url}, kind: tei }`,
    ].join('\n'),
  );
  return startServer({ env, args: ['--config', config] });
}

describe.skipIf(ownPostgresMissing !== undefined)('while PostgreSQL is away', () => {
  let postgres: OwnPostgres;
  beforeAll(async () => {
    postgres = await startOwnPostgres();
  });
  afterAll(() => postgres.stop());

  it('answers 503 with Retry-After to every request that needs it', async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-outage-'));
    await using server = await start(directory.path, { BAOBAB_STORE: await postgres.createDatabase() });
    const senders = requests(server, await store(callerOf(server)));
    const kinds = Object.entries(senders);
    const wrong: [string, Seen][] = [];
    let [answered, isOver] = [0, false];
    // Lanes send in the moments when PostgreSQL goes away and comes back, and rest in between.
    let [left, granted] = [0, Promise.withResolvers<void>()];
    const grant = (turns: number) => {
      left = turns;
      granted.resolve();
      granted = Promise.withResolvers();
    };
    async function lane(first: number): Promise<void> {
      for (let turn = first; ; turn += 1) {
        while (left <= 0 && !isOver) await granted.promise;
        if (isOver) return;
        left -= 1;
        const [kind, send] = kinds[turn % kinds.length] as (typeof kinds)[number];
        const answer = await seen(await send());
        answered += 1;
        if (!isAnswered(answer) && !isOutage(answer)) wrong.push([kind, answer]);
      }
    }
    const more = (count: number) => {
      const until = answered + count;
      grant(Number.POSITIVE_INFINITY);
      return expect.poll(() => answered).toBeGreaterThan(until);
    };
    const lanes = Promise.all(Array.from({ length: LANES }, (_, index) => lane(index * LANES)));
    const away: [string, Seen][] = [];
    try {
      for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
        await more(kinds.length);
        await postgres.halt(signal);
        await more(kinds.length);
        grant(0);
        // A session that was just read is remembered for half a second.
        await expect.poll(async () => isOutage(await seen(await senders.session()))).toBe(true);
        for (const [kind, send] of kinds) away.push([kind, await seen(await send())]);
        grant(Number.POSITIVE_INFINITY);
        await postgres.start();
        await expect.poll(async () => isAnswered(await seen(await senders.accounts()))).toBe(true);
        await more(kinds.length);
        grant(0);
        for (const [kind, send] of kinds) {
          const works = async () => isAnswered(await seen(await send()));
          await expect.poll(works, { message: kind }).toBe(true);
        }
      }
    } finally {
      isOver = true;
      grant(0);
      await lanes;
    }

    expect(wrong).toEqual([]);
    for (const [kind, answer] of away) {
      // A known key needs no PostgreSQL, also after others have changed.
      if (kind === 'models') expect(answer.status).toBe(200);
      // The words came before the bill failed: the error is an event.
      else if (kind === 'stream' && answer.status === 200) expect(answer.events).toContain('storage_unavailable');
      else expect([kind, answer]).toEqual([kind, unavailable(kind)]);
    }
    const perText = Map.groupBy(stacks(server), (text) => text);
    for (const [text, lines] of perText) expect([text, lines.length]).toEqual([text, expect.toSatisfy((n) => n <= 4)]);
    expect(perText.has('a request failed unexpectedly')).toBe(false);
  });
});

describe.skipIf(ownPostgresMissing !== undefined)('a short outage of PostgreSQL', () => {
  it('is a pause: requests wait, nothing runs meanwhile, and each is billed once', async () => {
    const postgres = await startOwnPostgres();
    onTestFinished(() => postgres.stop());
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-outage-'));
    await using server = await start(directory.path, { BAOBAB_STORE: await postgres.createDatabase() }, 300);
    const { get, post } = callerOf(server);
    const chat = (stream: boolean) => post('/v1/chat/completions', { model: CHAT, messages, stream });
    expect((await chat(false)).status).toBe(200);
    const [upstream] = upstreams as [FakeUpstream, FakeUpstream];
    const ran = () => upstream.requests.filter(({ path }) => path.endsWith('/chat/completions')).length;
    const before = ran();
    await postgres.halt('SIGQUIT');
    await expect.poll(async () => (await get('/readyz')).status).toBe(503);
    expect(await (await get('/readyz')).json()).toMatchObject({ reasons: ['the database does not answer'] });
    const waiting = [chat(false), chat(true), chat(false)].map(async (answer) => seen(await answer));
    // Others are answered while these wait.
    await expect.poll(async () => (await get('/metrics')).status).toBe(200);
    expect(ran()).toBe(before);
    await postgres.start();
    for (const answer of await Promise.all(waiting)) expect(answer).toMatchObject({ status: 200, code: undefined });
    expect(ran()).toBe(before + waiting.length);
    await expect
      .poll(async () => ((await (await get('/v1/usage?start=2026-01-01')).json()) as Usage).totals.requests)
      .toBe(1 + waiting.length);
  });
});

/** Stands in its place, to see a server try to reach it. */
async function takePlace(port: number) {
  const nothing = createServer((socket: Socket) => socket.destroy()).listen(port, '127.0.0.1');
  await once(nothing, 'listening');
  return {
    async afterTries(count: number) {
      for (let tries = 0; tries < count; tries += 1) await once(nothing, 'connection');
      nothing.close();
      await once(nothing, 'close');
    },
  };
}

describe.skipIf(ownPostgresMissing !== undefined)('a server that starts', () => {
  it('while PostgreSQL is away waits for it, and says each reason once', async () => {
    const postgres = await startOwnPostgres();
    onTestFinished(() => postgres.stop());
    const BAOBAB_STORE = await postgres.createDatabase();
    await postgres.halt('SIGQUIT');
    const place = await takePlace(postgres.port);
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-outage-'));
    const starting = start(directory.path, { BAOBAB_STORE });
    await place.afterTries(3);
    await postgres.start();
    await using server = await starting;
    expect((await callerOf(server).get('/readyz')).status).toBe(200);
    const told = server.output().match(/PostgreSQL at .* Waiting for it/g) ?? [];
    expect(told).not.toHaveLength(0);
    // The connection is refused at last.
    expect(new Set(told).size).toBe(told.length);
  });

  it('waits too when PostgreSQL goes away while it reads what it needs', async () => {
    const postgres = await startOwnPostgres();
    onTestFinished(() => postgres.stop());
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-outage-'));
    const BAOBAB_STORE = await postgres.createDatabase();
    await (await start(directory.path, { BAOBAB_STORE })).stop();
    const client = new Client(BAOBAB_STORE);
    await client.connect();
    onTestFinished(() => client.end());
    await client.query('begin; lock table model_lifecycles in access exclusive mode');
    const starting = start(directory.path, { BAOBAB_STORE });
    const blocked = async () => {
      const { rows } = await client.query('select pid from pg_locks where not granted');
      return rows.map(({ pid }) => pid as number);
    };
    await expect.poll(blocked, { timeout: 60_000 }).toHaveLength(1);
    const first = await blocked();
    await client.query('select pg_terminate_backend($1)', first);
    // It asks again, on another connection.
    await expect.poll(blocked, { timeout: 60_000 }).not.toEqual(expect.arrayContaining(first));
    await expect.poll(blocked, { timeout: 60_000 }).toHaveLength(1);
    await client.query('commit');
    await using server = await starting;
    expect(server.output()).toContain('Waiting for it');
    expect((await callerOf(server).get('/readyz')).status).toBe(200);
  });

  it('does not wait for what an operator must mend', async () => {
    const postgres = await startOwnPostgres();
    onTestFinished(() => postgres.stop());
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-outage-'));
    const BAOBAB_STORE = postgres.url.replace(/\/[^/]*$/, '/nowhere');
    await expect(start(directory.path, { BAOBAB_STORE })).rejects.toThrow("has no database 'nowhere'");
  });
});

const PER_MINUTE = 24;
const REFILL_MS = 60_000 / PER_MINUTE;

describe.skipIf((ownPostgresMissing ?? ownRedisMissing) !== undefined)('while Redis is away', () => {
  it('servers start degraded, count each other in the database, and share the limits again when Redis is back', async () => {
    const [postgres, redis] = await Promise.all([startOwnPostgres(), startRedis()]);
    onTestFinished(async () => void (await Promise.all([postgres.stop(), redis.stop()])));
    await redis.kill();
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-outage-'));
    const BAOBAB_STORE = await postgres.createDatabase();
    const env = { BAOBAB_STORE, BAOBAB_COUNTERS: redis.url, BAOBAB_LIMITS_EMBEDDING_RPM: `${PER_MINUTE}` };
    await using first = await start(directory.path, env);
    await using second = await start(directory.path, env);
    const callers = [first, second].map(callerOf);
    const readiness = ({ get }: Caller) => get('/readyz').then((answer) => answer.json());
    const counted = async ({ get }: Caller) => {
      const text = await (await get('/metrics')).text();
      return ['shared', 'replicas'].map((name) =>
        Number(new RegExp(`^baobab_counters_${name} (\\d+)$`, 'm').exec(text)?.[1]),
      );
    };
    for (const caller of callers) {
      expect(await readiness(caller)).toMatchObject({
        status: 'degraded',
        reasons: ['Redis does not answer: this server enforces its share of every limit'],
      });
      await expect.poll(() => counted(caller)).toEqual([0, 2]);
    }
    const began = performance.now();
    for (const { post } of callers) {
      const send = async () => (await post('/v1/embeddings', { model: EMBEDDING, input: 'a' })).status;
      const statuses = await Promise.all(Array.from({ length: PER_MINUTE }, send));
      const answered = statuses.filter((status) => status === 200).length;
      expect(answered).toBeGreaterThanOrEqual(PER_MINUTE / 2);
      // A share is refilled at half the rate.
      expect(answered).toBeLessThanOrEqual(PER_MINUTE / 2 + (performance.now() - began) / REFILL_MS / 2);
    }
    await redis.start();
    for (const caller of callers) {
      await expect.poll(() => readiness(caller)).toEqual({ status: 'ready', reasons: [] });
      await expect.poll(() => counted(caller)).toEqual([1, 2]);
    }
    // What both used meanwhile counts.
    const { post } = callers[0] as Caller;
    const statuses = await Promise.all(
      Array.from(
        { length: PER_MINUTE },
        async () => (await post('/v1/embeddings', { model: EMBEDDING, input: 'a' })).status,
      ),
    );
    const answered = statuses.filter((status) => status === 200).length;
    expect(answered).toBeLessThanOrEqual((performance.now() - began) / REFILL_MS + 1);
  });
});

describe.skipIf(s3Missing !== undefined)('while S3 is away', () => {
  it('a server starts degraded, and takes files when S3 is back', async () => {
    const s3 = await startS3();
    onTestFinished(() => s3.stop());
    await s3.halt();
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-outage-'));
    const BAOBAB_BLOBS = `s3://${s3.bucket}/start-${Date.now()}`;
    const env = { ...s3.env, BAOBAB_BLOBS, BAOBAB_BLOBS_ENDPOINT: s3.endpoint };
    await using server = await start(directory.path, env);
    const { get, post, upload } = callerOf(server);
    const readiness = async () => (await get('/readyz')).json();
    expect(await readiness()).toEqual({
      status: 'degraded',
      reasons: ['S3 does not answer: requests that need files get 503'],
      since: expect.any(String),
    });
    expect((await post('/v1/chat/completions', { model: CHAT, messages })).status).toBe(200);
    expect(isOutage(await seen(await upload()))).toBe(true);
    await s3.start();
    await expect.poll(readiness).toEqual({ status: 'ready', reasons: [] });
    expect((await upload()).status).toBe(200);
  });

  it('requests that need files get 503, and others are answered', async () => {
    const s3 = await startS3();
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-outage-'));
    const blobs = {
      ...s3.env,
      BAOBAB_BLOBS: `s3://${s3.bucket}/outage-${Date.now()}`,
      BAOBAB_BLOBS_ENDPOINT: s3.endpoint,
    };
    await using server = await start(directory.path, blobs);
    const stored = await store(callerOf(server));
    const kinds = Object.entries(requests(server, stored));
    await s3.stop();
    const needing = ['upload', 'upload with a key', 'content', 'message batch'];
    for (const [kind, send] of kinds) {
      const answer = await seen(await send());
      if (needing.includes(kind)) expect([kind, answer]).toEqual([kind, unavailable(kind)]);
      else expect([kind, answer.status]).toEqual([kind, 200]);
    }
    const content = await callerOf(server).get(`/v1/files/${stored.file}/content`);
    // A cache must not take the error for the file.
    expect(['etag', 'content-disposition'].map((name) => content.headers.get(name))).toEqual([null, null]);
    expect(stacks(server)).not.toContain('a request failed unexpectedly');
  });
});
