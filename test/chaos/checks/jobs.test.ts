import { expect, it } from 'vitest';
import type { EngineCall } from '../cluster/engine.ts';
import { FAULTS, planFaults } from '../faults.ts';
import { createRandom } from '../random.ts';
import { createTimeline } from '../timeline.ts';
import { checkRepeats } from './jobs.ts';

const run = (job: string | undefined, startMs: number): EngineCall => ({
  ...{ account: 'batches', replica: 0, job, sentMs: 0, startMs, endMs: startMs + 20 },
  ...{ promptTokens: 1, completionTokens: 0 },
});

it('finds jobs that ran again without a fault which explains it', () => {
  const timeline = createTimeline(() => {});
  const nowMs = performance.now();
  const calls = [run('a:1', nowMs), run('a:2', nowMs + 10), run('a:1', nowMs + 500), run(undefined, nowMs + 600)];
  expect(checkRepeats(calls, timeline)).toEqual([expect.stringMatching(/^a:1 ran at .* and only nothing was wrong$/)]);
  timeline.begin('redis', 'stop Redis').end();
  expect(checkRepeats(calls, timeline)).toEqual([expect.stringContaining('only redis was wrong')]);
  timeline.begin('kill-batch', 'kill -9').end();
  expect(checkRepeats(calls, timeline)).toEqual([]);
});

it('plans each kind of fault before one occurs again, and the same ones for a seed', () => {
  const plan = (seed: number) => planFaults(createRandom(seed), { totalMs: 1_200_000, kinds: FAULTS, replicas: 3 });
  const first = plan(1).slice(0, FAULTS.length);
  expect(first.map(({ kind }) => kind).toSorted()).toEqual(FAULTS.toSorted());
  expect(plan(1)).toEqual(plan(1));
  expect(plan(2)).not.toEqual(plan(1));
});
