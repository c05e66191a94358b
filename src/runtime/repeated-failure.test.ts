import { expect, it } from 'vitest';
import { createRepeatedFailure } from './repeated-failure.ts';

it('logs the first failure, one every 30 s and the recovery', () => {
  let now = 0;
  const lines: unknown[] = [];
  const write = (level: string) => (facts: object, text: string) => lines.push({ level, text, ...facts });
  const failure = createRepeatedFailure({
    logger: { error: write('error'), info: write('info') },
    clock: { now: () => now },
    text: 'failed to poll',
    facts: { job: 'a' },
  });
  failure.succeeded();
  expect(lines).toEqual([]);
  for (; now < 60_000; now += 250) failure.failed(`error at ${now}`);
  failure.succeeded();
  failure.succeeded();
  failure.failed('another');
  expect(lines).toEqual([
    { level: 'error', text: 'failed to poll', job: 'a', err: 'error at 0' },
    { level: 'error', text: 'failed to poll', job: 'a', err: 'error at 30000', failures: 121, sinceMs: 30_000 },
    { level: 'info', text: 'works again: failed to poll', job: 'a', failures: 240, sinceMs: 60_000 },
    { level: 'error', text: 'failed to poll', job: 'a', err: 'another' },
  ]);
});
