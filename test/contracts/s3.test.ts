import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { CreateMultipartUploadCommand, ListMultipartUploadsCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { StoreUnavailableError } from '../../packages/core/src/errors/store-unavailable.ts';
import { openS3BlobStore, type S3BlobOptions, type S3BlobStore } from '../../packages/server/src/adapters/blobs/s3.ts';
import { type S3Server, s3Missing, startS3 } from '../fixtures/s3-server.ts';
import { blobsContract } from './blobs.ts';

const PIECE = 1_048_576;

async function* pieces(bytes: Uint8Array, end?: () => void): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
  end?.();
}

describe.skipIf(s3Missing !== undefined)('s3', () => {
  let server: S3Server;
  let client: S3Client;
  const opened: S3BlobStore[] = [];
  const prefix = `test-${randomUUID()}`;
  beforeAll(async () => {
    server = await startS3();
    for (const [name, value] of Object.entries(server.env)) vi.stubEnv(name, value);
    client = new S3Client({ endpoint: server.endpoint, region: 'us-east-1', forcePathStyle: true });
  });
  afterAll(async () => {
    for (const blobs of opened) blobs.close();
    client.destroy();
    vi.unstubAllEnvs();
    await server.stop();
  });

  async function open(changes: Partial<S3BlobOptions> = {}): Promise<S3BlobStore> {
    const { endpoint, bucket } = server;
    const options = { bucket, prefix, endpoint, region: 'us-east-1', withLinks: false, now: Date.now };
    const blobs = await openS3BlobStore({ ...options, ...changes });
    opened.push(blobs);
    return blobs;
  }

  blobsContract('s3', open);

  const unfinished = async () => {
    const { Uploads = [] } = await client.send(
      new ListMultipartUploadsCommand({ Bucket: server.bucket, Prefix: `${prefix}/` }),
    );
    return Uploads.map(({ Key }) => Key);
  };

  it('stores what is larger than a part, and reads ranges of it', async () => {
    const blobs = await open();
    const bytes = randomBytes(20 * PIECE + 17);
    const stored = await blobs.put('large/whole', pieces(bytes));
    expect(stored).toEqual({ bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') });
    const read = await blobs.get('large/whole');
    expect(read && (await buffer(read)).equals(bytes)).toBe(true);
    const range = { start: 8 * PIECE - 3, end: 8 * PIECE + 2 };
    const part = await blobs.get('large/whole', range);
    expect(part && (await buffer(part)).equals(bytes.subarray(range.start, range.end + 1))).toBe(true);
  });

  it('counts a blob as deleted that others have deleted meanwhile', async () => {
    const absent = '<?xml version="1.0"?><Error><Code>NoSuchKey</Code><Message>It does not exist.</Message></Error>';
    const fake = createServer((request, response) => {
      const isDelete = request.method === 'DELETE';
      response.writeHead(isDelete ? 404 : 200, { 'content-type': 'application/xml' }).end(isDelete ? absent : '');
    });
    await once(fake.listen(0, '127.0.0.1'), 'listening');
    const blobs = await open({ endpoint: `http://127.0.0.1:${(fake.address() as AddressInfo).port}` });
    await expect(blobs.delete('contended')).resolves.toBeUndefined();
    fake.closeAllConnections();
    fake.close();
  });

  it('leaves nothing of an upload that breaks off after some parts', async () => {
    const blobs = await open();
    const breaking = pieces(randomBytes(20 * PIECE), () => {
      throw new Error('the client went away');
    });
    await expect(blobs.put('large/half', breaking)).rejects.toThrow('the client went away');
    expect(await blobs.stat('large/half')).toBeUndefined();
    expect(await unfinished()).toEqual([]);
  });

  it('sweeps only old uploads that a crash left', async () => {
    const blobs = await open({ now: () => Date.now() });
    await client.send(new CreateMultipartUploadCommand({ Bucket: server.bucket, Key: `${prefix}/crashed` }));
    expect(await blobs.sweepTemporary(60_000)).toBe(0);
    expect(await unfinished()).toEqual([`${prefix}/crashed`]);
    const tomorrow = await open({ now: () => Date.now() + 86_400_000 });
    expect(await tomorrow.sweepTemporary(60_000)).toBe(1);
    expect(await unfinished()).toEqual([]);
  });

  it('lists more than one page', async () => {
    const blobs = await open();
    const names = Array.from({ length: 1_050 }, (_, index) => `many/${index}`);
    for (let at = 0; at < names.length; at += 50) {
      await Promise.all(names.slice(at, at + 50).map((name) => blobs.put(name, pieces(Buffer.from('x')))));
    }
    const listed: string[] = [];
    for await (const { key } of blobs.list('many/')) listed.push(key);
    expect(listed.toSorted()).toEqual(names.toSorted());
  });

  it('gives links that work without credentials', async () => {
    const blobs = await open({ withLinks: true });
    await blobs.put('linked', pieces(Buffer.from('content')));
    const answer = await fetch((await blobs.link?.('linked', 'für alle.txt')) ?? '');
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-disposition')).toBe("attachment; filename*=UTF-8''f%C3%BCr%20alle.txt");
    expect(await answer.text()).toBe('content');
    expect((await open()).link).toBeUndefined();
  });

  it.each<[string, Partial<S3BlobOptions>, RegExp]>([
    ['without its bucket', { bucket: 'absent' }, /has no bucket 'absent'/],
    [
      'unreachable',
      { endpoint: 'http://127.0.0.1:1' },
      /S3 \(http:\/\/127\.0\.0\.1:1\) cannot be used: the connection was refused/,
    ],
  ])('%s: says why', async (_, changes, message) => {
    await expect(open(changes)).rejects.toThrow(message);
    await expect(open(changes)).rejects.toBeInstanceOf(StoreUnavailableError);
  });

  it('with wrong credentials: says why', async () => {
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'wrong');
    await expect(open()).rejects.toThrow(/refuses the bucket/);
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', server.env.AWS_SECRET_ACCESS_KEY ?? '');
  });
});
