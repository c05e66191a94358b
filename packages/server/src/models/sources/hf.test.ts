import { randomBytes } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readManifest } from '../manifest.ts';
import { startFakeHub } from '../testing/fake-hub.ts';
import { createScratch, sha256 } from '../testing/scratch-store.ts';
import { createHubSource } from './hf.ts';

const REVISION = '0123456789abcdef0123456789abcdef01234567';
const WEIGHTS = randomBytes(500_000);
const CONFIG = Buffer.from('{"hidden_size": 384}');
const MODEL = {
  slug: 'acme/hub',
  version: '2026-01-31',
  source: {
    kind: 'hf' as const,
    repo: 'acme/hub-model',
    revision: REVISION,
    files: [
      { as: 'model.onnx', path: 'onnx/model.onnx' },
      { as: 'config.json', path: 'config.json' },
    ],
  },
};

describe('hub source', () => {
  let hub: Awaited<ReturnType<typeof startFakeHub>>;
  let scratch: Awaited<ReturnType<typeof createScratch>>;
  const open = (overrides = {}) => scratch.store('http://127.0.0.1:1/', { hfEndpoint: hub.url, ...overrides });
  const weightRanges = () =>
    hub.requests.filter(({ path }) => path.endsWith('model.onnx')).map(({ range }) => range ?? 'whole');

  beforeEach(async () => {
    hub = await startFakeHub('acme/hub-model', REVISION);
    hub.add('onnx/model.onnx', WEIGHTS, { lfs: true });
    hub.add('config.json', CONFIG, { lfs: false });
    scratch = await createScratch();
  });

  afterEach(async () => {
    await scratch.close();
    await hub.close();
  });

  it('verifies by what the hub says and records the hashes that it found', async () => {
    const { directory } = await open().pull(MODEL);
    expect(WEIGHTS.equals(await readFile(join(directory, 'model.onnx')))).toBe(true);
    const manifest = await readManifest(directory);
    expect(manifest?.files.map(({ as, bytes, sha256: hash }) => [as, bytes, hash])).toEqual([
      ['model.onnx', 500_000, sha256(WEIGHTS)],
      ['config.json', 20, sha256(CONFIG)],
    ]);
  });

  it('believes the catalog more than the hub', async () => {
    const files = [{ as: 'model.onnx', path: 'onnx/model.onnx', sha256: sha256('something else') }];
    const model = { ...MODEL, source: { ...MODEL.source, files } };
    await expect(open().pull(model)).rejects.toMatchObject({ name: 'WeightsError', failure: 'mismatch' });
  });

  it('goes on where a broken connection stopped', async () => {
    hub.breakNextBodyAfter(200_000);
    const { directory } = await open().pull(MODEL);
    expect(WEIGHTS.equals(await readFile(join(directory, 'model.onnx')))).toBe(true);
    const last = weightRanges().at(-1) ?? '';
    expect(last).toMatch(/^bytes=[1-9]\d*-499999$/);
  });

  it('goes on from the bytes that an earlier process left', async () => {
    const source = createHubSource(MODEL.source, { endpoint: hub.url, token: undefined, fetch });
    const [expected] = await source.describe(AbortSignal.timeout(5_000));
    const pieces = join(scratch.modelsDirectory, '.staging', 'acme+hub@2026-01-31', 'pieces');
    await mkdir(pieces, { recursive: true });
    await writeFile(join(pieces, `${expected?.pieces[0]}.partial`), WEIGHTS.subarray(0, 123_456));
    const { directory } = await open().pull(MODEL);
    expect(WEIGHTS.equals(await readFile(join(directory, 'model.onnx')))).toBe(true);
    expect(weightRanges()).toEqual(['bytes=0-0', 'bytes=123456-499999']);
  });

  it('sends the token, and says that one is needed where it is missing', async () => {
    hub.requireToken('hf_not-a-real-token');
    await expect(open().pull(MODEL)).rejects.toThrow(
      /^Access to acme\/hub-model@.* \(status 401\): it needs a login or a token$/,
    );
    await open({ hfToken: 'hf_not-a-real-token' }).pull(MODEL);
  });

  it('sends the token that its file has by now', async () => {
    hub.requireToken('hf_the-second-token');
    await open({ hfToken: { value: 'hf_the-first-token', reread: () => 'hf_the-second-token' } }).pull(MODEL);
  });

  it('names the file that the repository does not have', async () => {
    const files = [{ as: 'model.onnx', path: 'onnx/absent.onnx' }];
    const model = { ...MODEL, source: { ...MODEL.source, files } };
    await expect(open().pull(model)).rejects.toThrow(/^There is no file onnx\/absent\.onnx in acme\/hub-model@/);
  });
});
