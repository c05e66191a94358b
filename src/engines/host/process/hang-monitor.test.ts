import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createHangMonitor } from './hang-monitor.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function build() {
  const state = { busy: true, hangs: 0 };
  const monitor = createHangMonitor({
    heartbeatMs: 1_000,
    hangTimeoutMs: 5_000,
    busy: () => state.busy,
    onHang: () => {
      state.hangs += 1;
    },
  });
  return { state, monitor };
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
});
