import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { API_KEY, type RunningServer, startServer } from '../acceptance/start-server.ts';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { type S3Server, s3Missing, startS3 } from '../fixtures/s3-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';

const missing = postgresMissing ?? s3Missing;

const headers = { authorization: `Bearer ${API_KEY}` };

describe.skipIf(missing !== undefined)('two servers with blobs in S3', () => {
  let postgres: PostgresServer;
  let s3: S3Server;
  let first: RunningServer;
  let second: RunningServer;
  beforeAll(async () => {
    [postgres, s3] = await Promise.all([sharedPostgres(), startS3()]);
    const env = {
      ...s3.env,
      BAOBAB_STORE: await postgres.createDatabase(),
      BAOBAB_BLOBS: `s3://${s3.bucket}/shared-${Date.now()}`,
      BAOBAB_BLOBS_ENDPOINT: s3.endpoint,
      BAOBAB_LOG_FORMAT: 'json',
    };
    [first, second] = await Promise.all([
      // More than its disk has: nothing is stored there.
      startServer({ env: { ...env, BAOBAB_DISK_RESERVE_BYTES: '1000000000000000' } }),
      startServer({ env: { ...env, BAOBAB_BLOBS_PRESIGNED_DOWNLOADS: 'true' } }),
    ]);
  });
  afterAll(async () => {
    await Promise.all([first, second].map((server) => server[Symbol.asyncDispose]()));
    await Promise.all([postgres.stop(), s3.stop()]);
  });

  const content = randomBytes(11_000_000);

  async function upload(): Promise<{ id: string; bytes: number }> {
    const body = new FormData();
    body.set('purpose', 'batch');
    body.set('file', new Blob([content]), 'large.bin');
    const answer = await fetch(`${first.address}/v1/files`, { method: 'POST', headers, body });
    expect(answer.status).toBe(200);
    return (await answer.json()) as { id: string; bytes: number };
  }

  const digest = (bytes: ArrayBuffer | Buffer) =>
    createHash('sha256')
      .update(new Uint8Array(bytes as ArrayBuffer))
      .digest('hex');

  it('need no free space on their own disks', async () => {
    const answer = await fetch(`${first.address}/readyz`);
    expect([answer.status, await answer.json()]).toEqual([200, expect.objectContaining({ status: 'ready' })]);
    const keyed = { ...headers, 'content-type': 'application/json', 'idempotency-key': 'a' };
    const created = await fetch(`${first.address}/v1/conversations`, { method: 'POST', headers: keyed, body: '{}' });
    expect(created.status).toBe(200);
  });

  it("read, list and delete each other's files", async () => {
    const { id, bytes } = await upload();
    expect(bytes).toBe(content.length);
    const path = `/v1/files/${id}/content`;
    const answer = await fetch(`${second.address}${path}`, { headers });
    expect(answer.status).toBe(200);
    expect(digest(await answer.arrayBuffer())).toBe(digest(content));
    const range = await fetch(`${first.address}${path}`, { headers: { ...headers, range: 'bytes=9000000-9000009' } });
    expect(Buffer.from(await range.arrayBuffer()).equals(content.subarray(9_000_000, 9_000_010))).toBe(true);
    expect((await fetch(`${second.address}/v1/files/${id}`, { method: 'DELETE', headers })).status).toBe(200);
    expect((await fetch(`${first.address}${path}`, { headers })).status).toBe(404);
  });

  it('answer downloads with a link only where it is configured, without the key of the client', async () => {
    const { id } = await upload();
    const get = (server: RunningServer, method = 'GET') =>
      fetch(`${server.address}/v1/files/${id}/content`, { method, headers, redirect: 'manual' });
    const answer = await get(second);
    expect(answer.status).toBe(302);
    const location = answer.headers.get('location') ?? '';
    expect(location).toMatch(new RegExp(`^${s3.endpoint}/`));
    expect(location).not.toContain(API_KEY);
    expect(digest(await (await fetch(location)).arrayBuffer())).toBe(digest(content));
    expect((await get(second, 'HEAD')).status).toBe(200);
    expect((await get(first)).status).toBe(200);
    const stranger = { authorization: 'Bearer bao_sk_wrong' };
    const refused = await fetch(`${second.address}/v1/files/${id}/content`, { headers: stranger, redirect: 'manual' });
    expect(refused.status).toBe(401);
  });
});
