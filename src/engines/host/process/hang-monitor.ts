/**
 * Tells a stuck engine process from a slow one. Progress is a frame of a call, or processor time spent between two heartbeats:
 * reading a long prompt sends nothing for minutes, but is no hang. It counts ticks instead of reading a clock, so that a
 * suspended machine or a jumping clock does not look like a hang.
 */
export interface HangMonitor {
  progress(): void;
  heartbeat(cpuMs: number): void;
  /** Whether the process has missed a whole heartbeat or more. */
  silent(): boolean;
  stop(): void;
}

export interface HangMonitorOptions {
  heartbeatMs: number;
  hangTimeoutMs: number;
  /** Whether the process has work that waits for it. */
  busy(): boolean;
  onTick?(): void;
  /** Called once. */
  onHang(): void;
}

/** A process that only sends heartbeats uses far less than this share of a core. */
const WORKING_SHARE = 0.05;

export function createHangMonitor(options: HangMonitorOptions): HangMonitor {
  let silentTicks = 0;
  let lastCpuMs = 0;

  const timer = setInterval(() => {
    silentTicks = options.busy() ? silentTicks + 1 : 0;
    options.onTick?.();
    if (silentTicks * options.heartbeatMs < options.hangTimeoutMs) return;
    clearInterval(timer);
    options.onHang();
  }, options.heartbeatMs);
  timer.unref();

  return {
    progress() {
      silentTicks = 0;
    },
    heartbeat(cpuMs) {
      if (cpuMs - lastCpuMs > options.heartbeatMs * WORKING_SHARE) silentTicks = 0;
      lastCpuMs = cpuMs;
    },
    silent: () => silentTicks > 1,
    stop: () => clearInterval(timer),
  };
}
