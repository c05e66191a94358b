import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { coreTimes, createHangMonitor } from './hang-monitor.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function build() {
  const state = { busy: true, hangs: 0, reason: '', starvedTicks: 0 };
  const times = { ranMs: 0, waitedMs: 0 };
  const monitor = createHangMonitor({
    heartbeatMs: 1_000,
    hangTimeoutMs: 5_000,
    busy: () => state.busy,
    coreTimes: () => ({ ...times }),
    onTick: (starved) => {
      if (starved) state.starvedTicks += 1;
    },
    onHang: (reason) => {
      state.hangs += 1;
      state.reason = reason;
    },
  });
  /** One second, for so much of which the process waited for a core or had one. */
  const second = (waitedMs: number, ranMs = 10) => {
    times.waitedMs += waitedMs;
    times.ranMs += ranMs;
    vi.advanceTimersByTime(1_000);
  };
  return { state, monitor, second };
}

describe('hang monitor', () => {
  it('reports a busy process that is silent for too long', () => {
    const { state } = build();
    vi.advanceTimersByTime(4_999);
    expect(state.hangs).toBe(0);
    vi.advanceTimersByTime(1);
    expect(state.hangs).toBe(1);
  });

  it('leaves an idle process alone', () => {
    const { state } = build();
    state.busy = false;
    vi.advanceTimersByTime(60_000);
    expect(state.hangs).toBe(0);
  });

  it('takes processor time for progress, but not a bare heartbeat', () => {
    const { state, monitor } = build();
    for (let second = 1; second <= 20; second += 1) {
      monitor.heartbeat(second * 900);
      vi.advanceTimersByTime(1_000);
    }
    expect(state.hangs).toBe(0);
    for (let second = 1; second <= 5; second += 1) {
      monitor.heartbeat(18_000 + second);
      vi.advanceTimersByTime(1_000);
    }
    expect(state.hangs).toBe(1);
  });

  it('knows which calls were sent before the silence and may have caused it', () => {
    const { monitor } = build();
    vi.advanceTimersByTime(1_000);
    expect(monitor.silent()).toBe(false);
    vi.advanceTimersByTime(1_000);
    expect(monitor.silent()).toBe(true);
    monitor.progress();
    expect(monitor.silent()).toBe(false);
  });

  it('does not count the time in which other programs had all cores', () => {
    const { state, monitor, second } = build();
    second(0);
    for (let at = 1; at <= 45; at += 1) {
      monitor.heartbeat(at * 20);
      second(950);
    }
    expect(state).toMatchObject({ hangs: 0, starvedTicks: 45 });
    for (let at = 1; at <= 4; at += 1) second(10);
    expect(state).toMatchObject({ hangs: 1, reason: 'it made no progress for 5 s' });
  });

  it('reports a process that computes forever on busy cores', () => {
    const { state, second } = build();
    for (let at = 1; at <= 5; at += 1) second(600, 400);
    expect(state).toMatchObject({ hangs: 1, starvedTicks: 0 });
  });

  it('waits for a core for a limited time only', () => {
    const { state, second } = build();
    second(0);
    for (let at = 1; at <= 49; at += 1) second(950);
    expect(state.hangs).toBe(0);
    second(950);
    expect(state).toMatchObject({ hangs: 1, reason: 'other programs left it almost no processor time for 50 s' });
  });

  it('takes a starved process for silent: calls sent to it did not stop it', () => {
    const { monitor, second } = build();
    second(0);
    second(950);
    expect(monitor.silent()).toBe(true);
  });
});

it.runIf(process.platform === 'linux')('adds up the times of all threads of a process', () => {
  vi.useRealTimers();
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
