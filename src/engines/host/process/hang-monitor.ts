/**
 * Tells a stuck engine process from a slow one. Progress is a frame of a call, or processor time spent between two heartbeats:
 * reading a long prompt sends nothing for minutes, but is no hang. Counted in ticks and not by a clock, so that a suspended
 * machine or a jumping clock kills nobody.
 */
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

export function createHangMonitor(options: HangMonitorOptions) {
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
    progress(): void {
      silentTicks = 0;
    },
    heartbeat(cpuMs: number): void {
      if (cpuMs - lastCpuMs > options.heartbeatMs * WORKING_SHARE) silentTicks = 0;
      lastCpuMs = cpuMs;
    },
    /** Whether the process has missed a whole heartbeat or more. */
    silent: () => silentTicks > 1,
    stop: () => clearInterval(timer),
  };
}
