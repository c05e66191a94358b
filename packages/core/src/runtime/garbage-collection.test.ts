import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { expect, it } from 'vitest';
import { chunkUsed, collectGarbage, collectYoungGarbage } from './garbage-collection.ts';

type GcEntry = PerformanceEntry & { detail: { kind: number } };

it.each([
  ['the whole heap', collectGarbage, constants.NODE_PERFORMANCE_GC_MAJOR],
  ['the young generation', collectYoungGarbage, constants.NODE_PERFORMANCE_GC_MINOR],
  ['chunks that were used', () => chunkUsed(8_388_608), constants.NODE_PERFORMANCE_GC_MINOR],
])('collects %s when asked', async (_, collect, kind) => {
  const seen = Promise.withResolvers<void>();
  const observer = new PerformanceObserver((list) => {
    if (list.getEntries().some((entry) => (entry as GcEntry).detail.kind === kind)) seen.resolve();
  });
  observer.observe({ entryTypes: ['gc'] });
  collect();
  await seen.promise;
  observer.disconnect();
  expect(globalThis).not.toHaveProperty('gc');
});
