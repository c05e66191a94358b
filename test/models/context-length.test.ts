import { expect, it } from 'vitest';
import type { EngineSpec } from '../../packages/core/src/domain/model.ts';
import { pulled } from '../../packages/core/src/engine/testing/pulled-generation.ts';
import { systemClock } from '../../packages/core/src/runtime/clock.ts';
import { drivers } from '../../packages/server/src/drivers.ts';
import { noMetrics } from '../../packages/server/src/host/metrics.ts';
import { EngineRegistry } from '../../packages/server/src/host/registry.ts';
import { callContext, startProgram, testModel, use } from '../fixtures/engine-bed.ts';
import { weights } from './weights.ts';

it('is never longer than that of the weights, whatever the catalog says', async () => {
  const { engine, directory } = await weights<EngineSpec['options']>('huggingfacetb/smollm2-135m-instruct');
  const model = testModel('acme/far-too-long', engine);
  model.entry.contextLength = 131_072;
  const warnings: string[] = [];
  const registry = new EngineRegistry({
    startProgram,
    weights: { ensure: async () => ({ directory }) },
    settings: {
      queueLength: 4,
      queueTimeoutSeconds: 60,
      loadTimeoutSeconds: 60,
      hangTimeoutSeconds: 60,
      idleUnloadSeconds: 0,
      // 131 072 tokens would need 4 GB.
      memoryBudgetMb: 1_000,
      permissionModel: true,
      retryUnavailableSeconds: 1,
    },
    clock: systemClock,
    logger: { debug() {}, info() {}, warn: (_facts, text) => warnings.push(text), error() {} },
    metrics: noMetrics,
    environment: process.env,
    drivers,
    driverSettings: { llamaThreads: 1, llamaSequences: 1 },
  });
  try {
    const answer = use(registry, { model }, async (loaded) =>
      Array.fromAsync(pulled(loaded.chat, { prompt: { text: 'word '.repeat(8_200) } }, callContext())),
    );
    await expect(answer).rejects.toThrow('maximum context length is 8192 tokens');
    expect(warnings).toEqual(['the catalog has a longer context than the weights']);
  } finally {
    await registry.close(0);
  }
});
