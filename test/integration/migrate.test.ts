import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { baobab } from '../acceptance/command.ts';
import { postJson } from '../acceptance/post-json.ts';
import { API_KEY, type RunningServer, startServer } from '../acceptance/start-server.ts';
import { ledgerRow } from '../contracts/ledger.ts';
import { type FakeUpstream, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { PASSWORD, type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { type S3Server, s3Missing, startS3 } from '../fixtures/s3-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';

const MAIN = join(import.meta.dirname, '../../packages/server/src/main.ts');
const EMBEDDING = 'intfloat/e5-mistral-7b-instruct';
const CHAT = 'qwen/qwen3-8b';
/** More than one batch of the copy. */
const OLD_ROWS = 5_000;
const GATE = 77_001;

const missing = postgresMissing ?? s3Missing;

interface Made {
  secret: string;
  fileId: string;
  outputId: string;
  batchId: string;
  responseId: string;
  conversationId: string;
  idempotencyKey: string;
  answer: string;
  usage: unknown;
  output: string;
}

const get = (server: RunningServer, path: string, secret = API_KEY) =>
  fetch(`${server.address}${path}`, { headers: { authorization: `Bearer ${secret}` } });

async function json<T>(answer: Promise<Response>): Promise<T> {
  const response = await answer;
  const text = await response.text();
  expect({ status: response.status, text }).toMatchObject({ status: 200 });
  return JSON.parse(text) as T;
}

const chatBody = { model: CHAT, messages: [{ role: 'user', content: 'Habari?' }] };
/** Its answer is larger than what is stored in the database. */
const largeBody = { model: EMBEDDING, input: Array.from({ length: 2_000 }, (_, index) => `text ${index}`) };

async function upload(server: RunningServer, secret: string): Promise<string> {
  const line = (index: number) =>
    JSON.stringify({
      custom_id: `line-${index}`,
      method: 'POST',
      url: '/v1/embeddings',
      body: { model: EMBEDDING, input: 'w' },
    });
  const body = new FormData();
  body.set('purpose', 'batch');
  body.set('file', new Blob([[0, 1, 2].map(line).join('\n')]), 'lines.jsonl');
  const headers = { authorization: `Bearer ${secret}` };
  return (await json<{ id: string }>(fetch(`${server.address}/v1/files`, { method: 'POST', headers, body }))).id;
}

const usageOf = (server: RunningServer, secret: string) =>
  json(get(server, '/v1/usage?start=2026-01-01&group_by=model', secret));

/** One of everything that a server stores. */
async function fill(server: RunningServer): Promise<Made> {
  await json(postJson(server, '/v1/admin/accounts', { name: 'acme', rpm: 5_000 }));
  const { secret } = await json<{ secret: string }>(
    postJson(server, '/v1/admin/keys', { account: 'acme', name: 'main' }),
  );
  const as = { secret };
  await json(postJson(server, '/v1/chat/completions', chatBody, as));
  const idempotencyKey = randomUUID();
  const answer = await (await postJson(server, '/v1/embeddings', largeBody, { secret, key: idempotencyKey })).text();
  const { id: responseId } = await json<{ id: string }>(
    postJson(server, '/v1/responses', { model: CHAT, input: 'Hello', store: true }, as),
  );
  const { id: conversationId } = await json<{ id: string }>(
    postJson(server, '/v1/conversations', { items: [{ type: 'message', role: 'user', content: 'Jambo' }] }, as),
  );
  const fileId = await upload(server, secret);
  const batch = { input_file_id: fileId, endpoint: '/v1/embeddings', completion_window: '24h' };
  const { id: batchId } = await json<{ id: string }>(postJson(server, '/v1/batches', batch, as));
  const read = () => json<{ status: string; output_file_id: string }>(get(server, `/v1/batches/${batchId}`, secret));
  await vi.waitFor(async () => expect(await read()).toMatchObject({ status: 'completed' }), { timeout: 120_000 });
  const { output_file_id: outputId } = await read();
  const output = await (await get(server, `/v1/files/${outputId}/content`, secret)).text();
  const usage = await usageOf(server, secret);
  return { secret, fileId, outputId, batchId, responseId, conversationId, idempotencyKey, answer, usage, output };
}

async function expectEverything(server: RunningServer, made: Made): Promise<void> {
  const { secret } = made;
  expect(await usageOf(server, secret)).toEqual(made.usage);
  const replay = await postJson(server, '/v1/embeddings', largeBody, { secret, key: made.idempotencyKey });
  expect([replay.status, replay.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
  expect(await replay.text()).toBe(made.answer);
  expect(await (await get(server, `/v1/files/${made.outputId}/content`, secret)).text()).toBe(made.output);
  expect((await get(server, `/v1/files/${made.fileId}/content`, secret)).status).toBe(200);
  expect(await json(get(server, `/v1/batches/${made.batchId}`, secret))).toMatchObject({ status: 'completed' });
  expect(await json(get(server, `/v1/responses/${made.responseId}`, secret))).toMatchObject({ id: made.responseId });
  const items = await json<{ data: unknown[] }>(get(server, `/v1/conversations/${made.conversationId}/items`, secret));
  expect(items.data).toHaveLength(1);
  expect((await postJson(server, '/v1/chat/completions', chatBody, { secret })).status).toBe(200);
  expect((await get(server, '/v1/admin/accounts')).status).toBe(200);
}

describe.skipIf(missing !== undefined)('baobab migrate', () => {
  let postgres: PostgresServer;
  let s3: S3Server;
  let upstream: FakeUpstream;
  let directory: Awaited<ReturnType<typeof mkdtempDisposable>>;
  let made: Made;
  let config: string;
  beforeAll(async () => {
    [postgres, s3, upstream, directory] = await Promise.all([
      sharedPostgres(),
      startS3(),
      startFakeUpstream('openai', { contextLength: 100_000 }),
      mkdtempDisposable(join(tmpdir(), 'baobab-migrate-')),
    ]);
    config = join(directory.path, 'test.yaml');
    await writeFile(
      config,
      [
        'log: { format: json }',
        `upstreams: [{ model: ${EMBEDDING}, url: ${upstream.url} }, { model: ${CHAT}, url: ${upstream.url} }]`,
      ].join('\n'),
    );
    const server = await startServer({ dataDir: directory.path, args: ['--config', config] });
    made = await fill(server);
    const url = await postgres.createDatabase();
    const refused = await baobab(directory.path, ['migrate', '--to', url]);
    expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('run migrate again') });
    // Rows that were only in the journal are copied too.
    await server.kill();
    const store = await openStore({ kind: 'sqlite', path: join(directory.path, 'baobab.sqlite') });
    const old = { accountId: 'acct_old', keyId: 'key_old', time: Date.UTC(2026, 2, 1) };
    await store.ledger.append(Array.from({ length: OLD_ROWS }, () => ledgerRow(old)));
    await store.close();
  });
  afterAll(() => Promise.all([postgres.stop(), s3.stop(), upstream.close(), directory.remove()]));

  const start = (env: Record<string, string>, dataDir?: string) =>
    startServer({ env, args: ['--config', config], ...(dataDir !== undefined && { dataDir }) });

  it('moves everything, with the bytes of files, to servers that share nothing with the old one', async () => {
    const url = await postgres.createDatabase();
    const blobs = `s3://${s3.bucket}/migrate-${Date.now()}`;
    const place = ['--blobs', blobs, '--blobs-endpoint', s3.endpoint];
    const moved = await baobab(directory.path, ['migrate', '--to', url, ...place], s3.env);
    expect(moved).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('can see the password') });
    expect(moved.stdout).toMatch(/ledger +50\d\d +50\d\d +equal/);
    expect(moved.stdout).toMatch(/acct_old +both +5000 +75000 /);
    expect(moved.stdout).not.toContain('DIFFERENT');
    expect(moved.stdout + moved.stderr).not.toContain(PASSWORD);
    await using server = await start({
      ...s3.env,
      BAOBAB_STORE: url,
      BAOBAB_BLOBS: blobs,
      BAOBAB_BLOBS_ENDPOINT: s3.endpoint,
    });
    await expectEverything(server, made);
  });

  it('starts again after kill -9 in the middle of a table, and keeps files on the disk without --blobs', async () => {
    const url = await postgres.createDatabase();
    await (await openStore({ kind: 'postgres', url })).close();
    await using admin = await connect(url);
    // The second batch of the ledger waits until the lock is given back.
    await admin.client.query(`
      create function wait_at_gate() returns trigger language plpgsql as $$ begin
        if exists (select from ledger) then perform pg_advisory_xact_lock(${GATE}); end if; return null; end $$;
      create trigger gate before insert on ledger for each statement execute function wait_at_gate();
      select pg_advisory_lock(${GATE})`);
    const env = { ...process.env, BAOBAB_DATA_DIR: directory.path, BAOBAB_STORE: url };
    const child = spawn(process.execPath, [MAIN, 'migrate'], { cwd: directory.path, env, stdio: 'ignore' });
    const waiting = `select from pg_locks where locktype = 'advisory' and objid = ${GATE} and not granted`;
    await expect.poll(async () => (await admin.client.query(waiting)).rowCount).toBe(1);
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
    // PostgreSQL ends the session of the killed process when its statement has ended. The batch is not committed.
    await admin.client.query(`select pg_advisory_unlock(${GATE})`);
    const others = 'select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()';
    await expect.poll(async () => (await admin.client.query(others)).rowCount).toBe(0);

    await admin.client.query('drop function wait_at_gate cascade');

    await expect(start({ BAOBAB_STORE: url })).rejects.toThrow(/is not finished/);
    const addressFile = `${config}.address`;
    await writeFile(addressFile, `${url}\n`);
    const moved = await baobab(directory.path, ['migrate', '--json', '--to-file', addressFile]);
    expect(moved.stderr).not.toContain('can see the password');
    expect(moved).toMatchObject({ exitCode: 0 });
    const { rows } = JSON.parse(moved.stdout) as { rows: { tables: { rowsHere: number; rowsThere: number }[] } };
    for (const { rowsHere, rowsThere } of rows.tables) expect(rowsThere).toBe(rowsHere);
    await using server = await start({ BAOBAB_STORE: url }, directory.path);
    await expectEverything(server, made);
  });

  async function connect(url: string) {
    const client = new Client(url);
    await client.connect();
    return { client, [Symbol.asyncDispose]: () => client.end() };
  }
});
