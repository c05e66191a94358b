import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import OpenAI, { NotFoundError, toFile } from 'openai';
import { afterAll, expect, it } from 'vitest';
import { type RunningServer, startServer } from './start-server.ts';

let server: RunningServer;
let client: OpenAI;
async function start(): Promise<void> {
  server = await startServer({ dataDir, env: { BAOBAB_LOG_LEVEL: 'warn' } });
  client = new OpenAI({ apiKey: server.apiKey, baseURL: `${server.address}/v1`, maxRetries: 0 });
}
const dataDir = await mkdtemp(join(tmpdir(), 'baobab-files-'));
await start();
afterAll(async () => {
  await server.stop();
  await rm(dataDir, { recursive: true, force: true });
});

const create = async (bytes: Buffer | string, name: string) =>
  client.files.create({ file: await toFile(Buffer.from(bytes), name), purpose: 'batch' });

it('returns uploads of the official client unchanged', async () => {
  const bytes = randomBytes(2_000_000);
  const path = join(dataDir, 'from-disk.bin');
  await writeFile(path, bytes);
  const fromDisk = await client.files.create({ file: createReadStream(path), purpose: 'batch' });
  expect(fromDisk).toMatchObject({ object: 'file', filename: 'from-disk.bin', bytes: bytes.length, purpose: 'batch' });
  expect(Buffer.from(await (await client.files.content(fromDisk.id)).arrayBuffer()).equals(bytes)).toBe(true);
  expect(await client.files.retrieve(fromDisk.id)).toMatchObject({ id: fromDisk.id });
  expect((await client.files.waitForProcessing(fromDisk.id)).status).toBe('processed');
  expect(await client.files.delete(fromDisk.id)).toEqual({ id: fromDisk.id, object: 'file', deleted: true });
  await expect(client.files.content(fromDisk.id)).rejects.toBeInstanceOf(NotFoundError);
});

it('keeps file names in any script', async () => {
  for (const name of ['日本語.jsonl', 'ünï "quoted".jsonl', '🙂.txt', "o'neil (1).txt"]) {
    const { id, filename } = await create('x', name);
    expect(filename).toBe(name);
    const disposition = (await client.files.content(id)).headers.get('content-disposition') ?? '';
    expect(decodeURIComponent(disposition.split("UTF-8''")[1] ?? '')).toBe(name);
    await client.files.delete(id);
  }
});

it('lists files by page, newest first', async () => {
  const created: string[] = [];
  for (let index = 0; index < 7; index += 1) created.push((await create(String(index), `${index}.txt`)).id);
  const listed: string[] = [];
  for await (const file of client.files.list({ limit: 3 })) listed.push(file.id);
  expect(listed).toEqual(created.toReversed());
  // Deleting while paging, as clean-up scripts do.
  for await (const file of client.files.list({ limit: 2 })) await client.files.delete(file.id);
  expect((await client.files.list()).data).toEqual([]);
});

it('keeps every acknowledged upload and no partial one when it is killed', async () => {
  const bytes = randomBytes(400_000);
  const acknowledged: string[] = [];
  // Ends with the test: fetch reads on after the connection has broken, and keeps what it read.
  let isOver = false;
  async function* endless() {
    while (!isOver) {
      await nextTurn();
      yield randomBytes(16_384);
    }
  }
  const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="half"\r\n\r\n';
  const half = fetch(`${server.address}/v1/files`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'multipart/form-data; boundary=b' },
    body: ReadableStream.from(
      (async function* () {
        yield Buffer.from(head);
        yield* endless();
      })(),
    ),
    duplex: 'half',
  } as RequestInit);
  const broken = expect(half).rejects.toThrow();
  const uploads = async () => {
    while (true) acknowledged.push((await create(bytes, 'whole.bin')).id);
  };
  const stopped = Promise.allSettled([uploads(), uploads(), uploads()]);
  await expect.poll(() => acknowledged.length).toBeGreaterThan(8);
  await server.kill();
  isOver = true;
  await Promise.all([broken, stopped]);

  await start();
  const listed = new Set((await client.files.list()).data.map((file) => file.id));
  expect(acknowledged.filter((id) => !listed.has(id))).toEqual([]);
  for (const id of listed) {
    expect(Buffer.from(await (await client.files.content(id)).arrayBuffer()).equals(bytes)).toBe(true);
  }
  // What was not acknowledged is either a whole file or gone, soon after the start.
  const blobs = async () => {
    const found = await readdir(join(dataDir, 'blobs'), { recursive: true, withFileTypes: true });
    return found.filter((entry) => entry.isFile() && !entry.parentPath.includes('idempotency')).length;
  };
  await expect.poll(blobs).toBe(listed.size);
  expect((await readFile(join(dataDir, 'from-disk.bin'))).length).toBe(2_000_000);
});
