import { describe, expect, it } from 'vitest';
import { createThreadGovernor, parseStat } from './thread-governor.ts';

function bed(cores: number, most = cores) {
  const usage = { busyMs: 0, ownMs: 0, cores };
  let atMs = 0;
  let reads = 0;
  const read = () => {
    reads += 1;
    return { ...usage };
  };
  const governor = createThreadGovernor(most, read, () => atMs);
  return {
    governor,
    reads: () => reads,
    /** Lets time pass in which this process and others use so many cores. */
    pass(others: number, own = 1, ms = 250) {
      atMs += ms;
      usage.ownMs += own * ms;
      usage.busyMs += (own + others) * ms;
      return governor.threads();
    },
  };
}

describe('the number of threads', () => {
  it('is all cores on a quiet machine', () => {
    const { governor, pass } = bed(4);
    expect(governor.threads()).toBe(4);
    expect(pass(0.3, 4)).toBe(4);
  });

  it('falls at once when another program takes a core', () => {
    const { pass } = bed(4);
    expect(pass(1, 3)).toBe(3);
    expect(pass(2.6, 1.4)).toBe(1);
  });

  it('is one when the machine is full', () => {
    expect(bed(2).pass(1.8, 0.2)).toBe(1);
    expect(bed(16).pass(40, 1)).toBe(1);
  });

  it('rises only when cores stay free', () => {
    const { pass } = bed(2);
    expect(pass(1.5)).toBe(1);
    expect([pass(0.1), pass(0.1), pass(1.5), pass(0.1), pass(0.1), pass(0.1)]).toEqual([1, 1, 1, 1, 1, 2]);
  });

  it('does not change between samples', () => {
    const { pass } = bed(2);
    expect(pass(2, 0, 50)).toBe(2);
    expect(pass(2, 0, 200)).toBe(1);
  });

  it('is looked up five times a second, however often it is asked for', () => {
    const { pass, reads } = bed(2);
    for (let ms = 0; ms < 1_000; ms += 5) pass(0, 1, 5);
    expect(reads()).toBe(1 + 5);
  });

  it('is at most what it was given, also on a larger machine', () => {
    expect(bed(64, 4).pass(50)).toBe(4);
    expect(bed(64, 4).pass(62)).toBe(2);
  });

  it('counts busy time and cores of the kernel', () => {
    const stat = 'cpu  10 2 3 400 50 6 7 8 0 0\ncpu0 5 1 2 200 25 3 3 4 0 0\ncpu1 5 1 1 200 25 3 4 4 0 0\nintr 1\n';
    expect(parseStat(stat)).toEqual({ busyMs: 280, cores: 2 });
  });
});
