import { describe, expect, it } from 'vitest';
import type { EngineSpec } from '../../packages/core/src/domain/model.ts';
import { systemClock } from '../../packages/core/src/runtime/clock.ts';
import { drivers } from '../../packages/server/src/drivers.ts';
import { noMetrics } from '../../packages/server/src/host/metrics.ts';
import type { Model } from '../../packages/server/src/host/model.ts';
import { EngineRegistry } from '../../packages/server/src/host/registry.ts';
import { callContext, embed, startProgram, testModel, until, use } from '../fixtures/engine-bed.ts';
import { weights } from './weights.ts';

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

async function openRegistry(slugs: readonly string[]) {
  const specs = new Map(
    await Promise.all(slugs.map(async (slug) => [slug, await weights<EngineSpec['options']>(slug)] as const)),
  );
  const models = slugs.map((slug): Model => {
    const spec = specs.get(slug);
    if (spec === undefined) throw new Error(`no weights of ${slug}`);
    return testModel(slug, spec.engine);
  });
  const registry = new EngineRegistry({
    startProgram,
    weights: { ensure: async ({ entry }) => ({ directory: specs.get(entry.slug)?.directory ?? '' }) },
    settings: {
      queueLength: 256,
      queueTimeoutSeconds: 60,
      loadTimeoutSeconds: 60,
      hangTimeoutSeconds: 60,
      idleUnloadSeconds: 0,
      memoryBudgetMb: 0,
      permissionModel: true,
      retryUnavailableSeconds: 1,
    },
    drivers,
    driverSettings: { onnxProcesses: 2, onnxThreads: 1, llamaThreads: 0, llamaSequences: 1 },
    clock: systemClock,
    logger: quiet,
    metrics: noMetrics,
    environment: process.env,
  });
  return { registry, models };
}

const TEXTS = [
  'Baobab trees store water in their trunks.',
  'The ferry leaves at seven in the morning.',
  'Kiswahili ni lugha ya Kibantu.',
  'A stitch in time saves nine.',
];

describe('killing a process of a real encoder', () => {
  it('in the middle of 50 requests loses none, keeps every vector right and leaves other models alone', async () => {
    const { registry, models } = await openRegistry([
      'sentence-transformers/all-minilm-l6-v2',
      'baai/bge-small-en-v1.5',
    ]);
    const [minilm, bge] = models as [Model, Model];
    const run = (model: Model, inputs: readonly string[]) => {
      const context = callContext();
      return use(registry, { model, context }, (engine) => embed(engine, inputs, context));
    };
    try {
      const expected = await run(minilm, TEXTS);
      await registry.warm([bge]);
      await until(async () => (await registry.list()).every(({ processIds }) => processIds.length === 2));

      const requests = Array.from({ length: 50 }, () => run(minilm, Array(4).fill(TEXTS).flat()));
      const elsewhere = Array.from({ length: 10 }, () => run(bge, TEXTS));
      const first = (await registry.list()).find(({ model }) => model.startsWith('sentence-transformers/'));
      const [victim = 0] = first?.processIds ?? [];
      process.kill(victim, 'SIGKILL');
      const killedAt = performance.now();
      const back = until(async () => {
        const report = (await registry.list()).find(({ model }) => model === first?.model);
        return report?.processIds.length === 2 && !report.processIds.includes(victim);
      }).then(() => performance.now() - killedAt);

      for (const { vectors, dimensions } of await Promise.all(requests)) {
        expect(dimensions).toBe(384);
        for (let row = 0; row < 16; row += 1) {
          expect(cosine(vectors, row, expected.vectors, row % TEXTS.length)).toBeGreaterThan(0.99);
        }
      }
      expect(await Promise.all(elsewhere)).toHaveLength(10);
      expect(await back).toBeLessThan(10_000);
      expect(registry.status(first?.model ?? '')).toMatchObject({ status: 'ready' });
    } finally {
      await registry.close(0);
    }
  });
});

/** Of unit vectors of 384 numbers. */
function cosine(a: Float32Array, rowA: number, b: Float32Array, rowB: number): number {
  let sum = 0;
  for (let i = 0; i < 384; i += 1) sum += (a[rowA * 384 + i] ?? 0) * (b[rowB * 384 + i] ?? 0);
  return sum;
}
