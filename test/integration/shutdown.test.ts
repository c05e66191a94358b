import { once } from 'node:events';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { readLedger } from '../../scripts/soak/books.ts';
import { postJson } from '../acceptance/post-json.ts';
import { API_KEY, type RunningServer, startServer } from '../acceptance/start-server.ts';
import { startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { postgresMissing } from '../fixtures/postgres-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';

const CHAT = 'qwen/qwen2.5-0.5b-instruct';
const LINES = 3;
const DRAIN_MS = 10_000;
const authorization = `Bearer ${API_KEY}`;
const question = { model: CHAT, messages: [{ role: 'user', content: 'hi' }] };

async function orderBatch(server: RunningServer): Promise<string> {
  const line = (number: number) =>
    JSON.stringify({ custom_id: `${number}`, method: 'POST', url: '/v1/chat/completions', body: question });
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('file', new Blob([Array.from({ length: LINES }, (_, index) => line(index)).join('\n')]), 'in.jsonl');
  const uploaded = await fetch(`${server.address}/v1/files`, {
    method: 'POST',
    headers: { authorization },
    body: form,
  });
  const { id } = (await uploaded.json()) as { id: string };
  const order = { input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h' };
  return ((await (await postJson(server, '/v1/batches', order)).json()) as { id: string }).id;
}

it('bills the delivered part of a stream that the deadline cuts off, and whole answers only when they are delivered', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-shutdown-'));
  const upstream = await startFakeUpstream('vllm', { stallAfterChunks: 4 });
  const config = join(directory.path, 'shutdown.yaml');
  const settings = [
    'log: { level: error, format: json }',
    `http: { drain_timeout_ms: ${DRAIN_MS} }`,
    `upstreams: [{ model: ${CHAT}, url: ${upstream.url}, kind: vllm }]`,
  ];
  await writeFile(config, settings.join('\n'));
  const start = () => startServer({ dataDir: directory.path, args: ['--config', config] });
  const ledger = () =>
    readLedger(directory.path)
      .map(({ billingId, completionTokens, status }) => `${billingId.split(/[_:]/)[0]} ${completionTokens} ${status}`)
      .sort();
  const ask = (server: RunningServer) =>
    postJson(server, '/v1/chat/completions', { ...question, stream: true }, { key: 'one' });

  let server = await start();
  try {
    const batch = await orderBatch(server);
    // Before the request: while one runs, lines take turns.
    await expect.poll(upstream.sentChunks).toBe(4 * LINES);
    const cut = (await ask(server)).text();
    const cutWhole = postJson(server, '/v1/chat/completions', question);
    await expect.poll(upstream.sentChunks).toBe(4 * (2 + LINES));
    const stoppedAt = performance.now();
    await server.stop();
    // One deadline for all, not one after the other.
    expect(performance.now() - stoppedAt).toBeLessThan(1.9 * DRAIN_MS);
    // The errors say why, and that clients may try again.
    const failure = { error: { code: 'model_unavailable', message: expect.stringContaining('shutting down') } };
    expect(JSON.parse((await cut).trimEnd().split('data: ').at(-1) ?? '')).toMatchObject(failure);
    const whole = await cutWhole;
    expect([whole.status, whole.headers.get('retry-after')]).toEqual([503, '5']);
    expect(await whole.json()).toMatchObject(failure);
    expect(ledger()).toEqual(['req 3 503']);

    upstream.behaviour.stallAfterChunks = undefined;
    server = await start();
    // The list has them too, with what was billed.
    const { data } = (await (await fetch(`${server.address}/v1/requests`, { headers: { authorization } })).json()) as {
      data: { status: number; code: string; completion_tokens: number }[];
    };
    // Lines of the batch may have run again meanwhile.
    const refused = data.filter(({ status }) => status !== 200);
    const listed = refused.map(({ status, code, completion_tokens: tokens }) => `${status} ${code} ${tokens}`);
    expect(listed.sort()).toEqual(['503 model_unavailable 0', '503 model_unavailable 3']);
    expect(await (await ask(server)).text()).toContain('[DONE]');
    const statusOf = async () => {
      const answer = await fetch(`${server.address}/v1/batches/${batch}`, { headers: { authorization } });
      return ((await answer.json()) as { status: string }).status;
    };
    await expect.poll(statusOf).toBe('completed');
    expect(ledger()).toEqual([...Array.from({ length: LINES }, () => 'batch 6 200'), 'idem 6 200', 'req 3 503']);
  } finally {
    await server.kill();
    await upstream.close();
  }
});

it('says that it is not ready before it closes, and answers requests until then', async () => {
  const upstream = await startFakeUpstream('vllm');
  const env = {
    // The test kills it long before.
    BAOBAB_HTTP_DRAIN_DELAY_MS: '3600000',
    BAOBAB_UPSTREAMS: JSON.stringify([{ model: CHAT, url: upstream.url, kind: 'vllm' }]),
  };
  const server = await startServer({ env });
  try {
    expect((await postJson(server, '/v1/chat/completions', question)).headers.get('connection')).toBe('keep-alive');
    const release = Promise.withResolvers<void>();
    upstream.behaviour.hold = () => release.promise;
    const begun = postJson(server, '/v1/chat/completions', question);
    await upstream.until(() => upstream.requests.length === 2);
    server.process.kill('SIGTERM');
    const readiness = async () => {
      const answer = await fetch(`${server.address}/readyz`);
      return { status: answer.status, body: await answer.json() };
    };
    const body = { status: 'not ready', reasons: ['the server is stopping'], since: expect.any(String) };
    await expect.poll(readiness).toEqual({ status: 503, body });
    release.resolve();
    expect((await begun).headers.get('connection')).toBe('close');
    for (const stream of [false, true]) {
      const answer = await postJson(server, '/v1/chat/completions', { ...question, stream });
      expect(answer.status).toBe(200);
      expect(answer.headers.get('connection')).toBe('close');
      expect(await answer.text()).toContain('side');
    }
  } finally {
    await server.kill();
    await upstream.close();
  }
});

/** Nothing can be read or written until the returned client ends. */
async function lockEverything(url: string): Promise<Client> {
  const client = new Client(url);
  await client.connect();
  const { rows } = await client.query<{ names: string }>(
    "select string_agg(quote_ident(tablename), ', ') as names from pg_tables where schemaname = current_schema()",
  );
  await client.query(`begin; lock table ${rows[0]?.names} in access exclusive mode`);
  return client;
}

it.skipIf(postgresMissing !== undefined)(
  'ends by one deadline while an upstream, a background response, an upload, a report and the database hang',
  async () => {
    const url = await (await sharedPostgres()).createDatabase();
    const upstream = await startFakeUpstream('vllm', { stallAfterChunks: 1 });
    onTestFinished(() => upstream.close());
    const env = {
      BAOBAB_STORE: url,
      BAOBAB_LOG_FORMAT: 'json',
      BAOBAB_HTTP_DRAIN_TIMEOUT_MS: '1000',
      BAOBAB_UPSTREAMS: JSON.stringify([{ model: CHAT, url: upstream.url, kind: 'vllm' }]),
    };
    const server = await startServer({ env });
    onTestFinished(() => server.kill());
    const hanging = [
      postJson(server, '/v1/chat/completions', { ...question, stream: true }).then((answer) => answer.text()),
      postJson(server, '/v1/chat/completions', question),
      postJson(server, '/v1/responses', { model: CHAT, input: 'hi', background: true }),
    ].map((each) => each.catch(() => {}));
    await expect.poll(upstream.sentChunks).toBe(3);
    const { hostname, port } = new URL(server.address);
    const upload = connect(Number(port), hostname).on('error', () => {});
    const type = 'content-type: multipart/form-data; boundary=b\r\ncontent-length: 1000000';
    upload.write(`POST /v1/files HTTP/1.1\r\nhost: a\r\nauthorization: ${authorization}\r\n${type}\r\n\r\n--b\r\n`);
    const locked = await lockEverything(url);
    const report = fetch(`${server.address}/v1/requests`, { headers: { authorization } }).catch(() => {});
    const beganAt = performance.now();
    const exited = once(server.process, 'exit');
    server.process.kill('SIGTERM');
    const [code] = await exited;
    // 1 s for requests and 10 s for all that follows; the rest is for a busy machine.
    expect(performance.now() - beganAt).toBeLessThan(25_000);
    expect(code).toBe(1);
    expect(server.output()).toContain('failed to stop within 11 s, ending the process');
    await Promise.all([...hanging, report]);
    await locked.end();
  },
);
