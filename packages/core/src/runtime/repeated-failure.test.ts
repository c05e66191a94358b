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

it('begins anew after a while without a failure where success is not reported', () => {
  let now = 0;
  const lines: unknown[] = [];
  const write = (facts: object) => lines.push(facts);
  const failure = createRepeatedFailure({
    logger: { error: write, info: write },
    clock: { now: () => now },
    text: 'failed',
    overAfterMs: 60_000,
  });
  for (; now <= 30_000; now += 1_000) failure.failed(`error at ${now}`);
  now = 100_000;
  failure.failed('another');
  expect(lines).toEqual([
    { err: 'error at 0' },
    { err: 'error at 30000', failures: 31, sinceMs: 30_000 },
    { err: 'another' },
  ]);
});
