import { describe, expect, it } from 'vitest';
import type { EngineCall } from '../cluster/engine.ts';
import { alonePeriods, lossesBetween } from './alone.ts';
import { checkConcurrency } from './limits.ts';

const line = (atMs: number, msg: string, facts = {}) =>
  `${Math.ceil(atMs)} ${JSON.stringify({ time: performance.timeOrigin + atMs, ...facts, msg })}`;
const call = (startMs: number, endMs: number): EngineCall => ({
  account: 'a',
  replica: 0,
  job: undefined,
  sentMs: startMs - 1,
  startMs,
  endMs,
  promptTokens: 1,
  completionTokens: 1,
});
const atOnce = (count: number) => Array.from({ length: count }, () => call(1_000, 1_400));

describe('the check of limits', () => {
  it('reads from logs when replicas were without Redis', () => {
    const log = [
      'Baobab serves',
      line(10, 'process started'),
      line(100, "Redis does not answer, enforcing this server's share of every limit", { replicas: 2 }),
      line(200, 'Redis answers again, limits are shared by all servers'),
      line(300, 'Redis does not answer, …'),
      line(400, 'process started'),
      line(500, 'Redis does not answer, …'),
      '',
    ].join('\n');
    const periods = alonePeriods('r', log);
    expect(periods[0]?.sharers).toBe(2);
    const rounded = periods.map(({ startMs, endMs }) => [Math.round(startMs), Math.round(endMs)]);
    expect(rounded).toEqual([
      [100, 200],
      [300, 400],
      [500, Number.POSITIVE_INFINITY],
    ]);
  });

  it('tells a stopped Redis from replicas that lost it on their own', () => {
    const stop = { kind: 'redis', text: '', startMs: 1_000, endMs: 3_000 };
    const periods = [
      { replica: '1', sharers: 3, startMs: 1_100, endMs: 4_000 },
      { replica: '2', sharers: 3, startMs: 1_100, endMs: 4_100 },
      { replica: '3', sharers: 3, startMs: 500, endMs: 4_000 },
      { replica: '1', sharers: 3, startMs: 60_000, endMs: 90_000 },
    ];
    const losses = (fromMs: number, toMs: number) => lossesBetween({ periods, events: [stop] }, fromMs, toMs);
    expect(losses(0, 10_000)).toMatchObject({ restarts: 1, alone: 1 });
    expect(losses(50_000, 80_000)).toMatchObject({ restarts: 0, alone: 1, aloneMinutes: 1 / 3 });
    expect(losses(95_000, 99_000)).toMatchObject({ restarts: 0, alone: 0 });
  });

  it('allows one share for each replica that was alone while the requests ran, and no more than all but one', () => {
    const findings = (count: number, alone: readonly [string, number, number][], sharers = 3) => {
      const periods = alone.map(([replica, startMs, endMs]) => ({ replica, sharers, startMs, endMs }));
      return checkConcurrency(4, atOnce(count), { replicas: 3, events: [], periods }).findings;
    };
    expect(findings(4, [])).toEqual([]);
    expect(findings(5, [])).toHaveLength(1);
    expect(findings(5, [['1', 900, 1_100]])).toEqual([]);
    expect(findings(5, [['1', 100, 900]])).toHaveLength(1);
    expect(findings(6, [['1', 900, 1_100]])).toHaveLength(1);
    const all: [string, number, number][] = ['1', '2', '3'].map((name) => [name, 900, 1_100]);
    expect(findings(6, all)).toEqual([]);
    expect(findings(7, all)).toHaveLength(1);
    // While the third replica was dead, Redis knew two.
    expect(findings(6, [['1', 900, 1_100]], 2)).toEqual([]);
    expect(findings(7, [['1', 900, 1_100]], 2)).toHaveLength(1);
  });
});
