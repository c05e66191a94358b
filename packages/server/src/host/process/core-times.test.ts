import { expect, it } from 'vitest';
import { coreTimes } from './core-times.ts';

it.runIf(process.platform === 'linux')('adds up the times of all threads of a process', () => {
  const before = coreTimes(process.pid);
  const until = performance.now() + 20;
  while (performance.now() < until);
  const after = coreTimes(process.pid);
  const passed = (time: 'ranMs' | 'waitedMs') => (after?.[time] ?? 0) - (before?.[time] ?? 0);
  expect(before?.ranMs).toBeGreaterThan(0);
  expect(passed('ranMs') + passed('waitedMs')).toBeGreaterThanOrEqual(15);
});

it('knows nothing of a process that is gone', () => {
  expect(coreTimes(2 ** 30)).toBeUndefined();
});
