import { once } from 'node:events';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { API_KEY, type RunningServer, startServer } from '../acceptance/start-server.ts';
import { commandAt } from '../contracts/redis-bed.ts';
import { ownRedisMissing, startRedis } from '../fixtures/redis-server.ts';
import { s3Missing, startS3 } from '../fixtures/s3-server.ts';

const EMBEDDING = 'baai/bge-m3';
const FIRST = 'the-first-secret-0123456789';
const SECOND = 'the-second-secret-0123456789';

/** An upstream that takes some keys. */
async function startUpstream() {
  const upstream = { keys: [FIRST], url: '', refused: 0 };
  const answer = {
    object: 'list',
    data: [{ object: 'embedding', index: 0, embedding: Array.from({ length: 1024 }, () => 0.5) }],
    usage: { prompt_tokens: 3, total_tokens: 3 },
  };
  const server = createServer((request, response) => {
    const isRight = upstream.keys.some((key) => request.headers.authorization === `Bearer ${key}`);
    if (!isRight) upstream.refused += 1;
    request.resume().once('end', () => {
      response.writeHead(isRight ? 200 : 401, { 'content-type': 'application/json' });
      response.end(JSON.stringify(isRight ? answer : { error: { message: 'wrong key' } }));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  upstream.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return upstream;
}

async function secretFiles() {
  const directory = await mkdtempDisposable(join(tmpdir(), 'baobab-secrets-'));
  onTestFinished(() => directory.remove());
  const at = (name: string) => join(directory.path, name);
  return { at, write: (name: string, content: string) => writeFile(at(name), `${content}\n`) };
}

async function start(env: Record<string, string>): Promise<RunningServer> {
  const server = await startServer({ env: { BAOBAB_LOG_FORMAT: 'json', ...env } });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return server;
}

const authorization = (key: string) => ({ authorization: `Bearer ${key}` });
const embed = async ({ address }: RunningServer): Promise<number> => {
  const headers = { ...authorization(API_KEY), 'content-type': 'application/json' };
  const body = JSON.stringify({ model: EMBEDDING, input: 'a' });
  return (await fetch(`${address}/v1/embeddings`, { method: 'POST', headers, body })).status;
};
const scrape = async ({ address }: RunningServer, token: string): Promise<number> =>
  (await fetch(`${address}/metrics`, { headers: authorization(token) })).status;
const upstreamsOf = (url: string, file: string) =>
  JSON.stringify([{ model: EMBEDDING, url, api_key_file: file, max_concurrency: 4 }]);

describe('a secret that was replaced in its file', () => {
  it('is sent to an upstream that refuses the old one, in the same request', async () => {
    const { at, write } = await secretFiles();
    const upstream = await startUpstream();
    await write('key', FIRST);
    const server = await start({ BAOBAB_UPSTREAMS: upstreamsOf(upstream.url, at('key')) });
    expect(await embed(server)).toBe(200);
    await write('key', SECOND);
    expect(await embed(server)).toBe(200);
    expect(upstream.refused).toBe(0);
    upstream.keys = [SECOND];
    expect(await Promise.all(Array.from({ length: 4 }, () => embed(server)))).toEqual([200, 200, 200, 200]);
    expect(upstream.refused).toBeGreaterThan(0);
    expect(server.output()).not.toContain('secret-0123456789');
  });

  it('opens the metrics', async () => {
    const { at, write } = await secretFiles();
    await write('token', FIRST);
    const server = await start({ BAOBAB_METRICS_TOKEN_FILE: at('token') });
    expect([await scrape(server, FIRST), await scrape(server, SECOND)]).toEqual([200, 404]);
    await write('token', SECOND);
    await expect.poll(() => scrape(server, SECOND)).toBe(200);
    expect(await scrape(server, FIRST)).toBe(404);
  });

  it.skipIf(ownRedisMissing !== undefined)('is used for the next connection to Redis', async () => {
    const { at, write } = await secretFiles();
    const redis = await startRedis(['--requirepass', 'first-password']);
    onTestFinished(() => redis.stop());
    const url = (password: string) => `redis://:${password}@127.0.0.1:${redis.port}`;
    await write('counters', url('first-password'));
    const server = await start({ BAOBAB_COUNTERS_FILE: at('counters') });
    const status = async () => (await (await fetch(`${server.address}/readyz`)).json()) as { status: string };
    expect(await status()).toMatchObject({ status: 'ready' });
    await commandAt(url('first-password'), 'CONFIG', 'SET', 'requirepass', 'second-password');
    await commandAt(url('second-password'), 'CLIENT', 'KILL', 'TYPE', 'normal');
    await expect.poll(status).toMatchObject({ status: 'degraded' });
    await write('counters', url('second-password'));
    await expect.poll(status).toMatchObject({ status: 'ready' });
    expect(server.output()).toContain('refuses the user or the password in counters');
    expect(server.output()).not.toContain('second-password');
  });

  it.skipIf(s3Missing !== undefined || process.env.BAOBAB_TEST_S3_URL !== undefined)(
    'signs the calls to S3, which refused those with the old one',
    async () => {
      const { at, write } = await secretFiles();
      const s3 = await startS3();
      onTestFinished(() => s3.stop());
      const profile = (secret: string) => `[default]\naws_access_key_id = tester\naws_secret_access_key = ${secret}`;
      await write('aws', profile(s3.env.AWS_SECRET_ACCESS_KEY ?? ''));
      const server = await start({
        AWS_REGION: 'us-east-1',
        AWS_SHARED_CREDENTIALS_FILE: at('aws'),
        BAOBAB_BLOBS: `s3://${s3.bucket}`,
        BAOBAB_BLOBS_ENDPOINT: s3.endpoint,
      });
      const upload = async (): Promise<number> => {
        const body = new FormData();
        body.set('purpose', 'user_data');
        body.set('file', new Blob(['text']), 'a.txt');
        return (await fetch(`${server.address}/v1/files`, { method: 'POST', headers: authorization(API_KEY), body }))
          .status;
      };
      expect(await upload()).toBe(200);
      await s3.halt();
      await s3.start(SECOND);
      expect(await upload()).toBe(503);
      await write('aws', profile(SECOND));
      await expect.poll(upload, { interval: 250 }).toBe(200);
    },
  );

  it('is read on SIGHUP, and a broken file leaves the old one in use', async () => {
    const { at, write } = await secretFiles();
    const upstream = await startUpstream();
    await write('key', FIRST);
    await write('token', FIRST);
    const server = await start({
      BAOBAB_METRICS_TOKEN_FILE: at('token'),
      BAOBAB_UPSTREAMS: upstreamsOf(upstream.url, at('key')),
    });
    upstream.keys = [FIRST, SECOND];
    await write('key', SECOND);
    await write('token', '');
    server.process.kill('SIGHUP');
    await expect.poll(server.output).toContain('read the secrets again');
    const lines = server
      .output()
      .split('\n')
      .filter((line) => line.includes('_file"'))
      .map((line) => JSON.parse(line));
    expect(lines).toMatchObject([
      { level: 30, setting: 'api_key_file', msg: 'a secret was replaced, using the new one' },
      { level: 50, setting: 'metrics.token_file', problem: `the file ${at('token')} is empty` },
    ]);
    upstream.keys = [SECOND];
    expect(await embed(server)).toBe(200);
    expect(upstream.refused).toBe(0);
    expect(await scrape(server, FIRST)).toBe(200);
    await write('token', SECOND);
    server.process.kill('SIGHUP');
    await expect.poll(() => scrape(server, FIRST)).toBe(404);
    expect(await scrape(server, SECOND)).toBe(200);
  });
});
