import { readdirSync, readFileSync } from 'node:fs';

/**
 * Tells a stuck engine process from a slow one. Progress is a frame of a call, or processor time spent between two heartbeats:
 * reading a long prompt sends nothing for minutes, but is not stuck. A process that other programs keep from every core is not stuck
 * either. It counts ticks instead of reading a clock, so that a suspended machine or a jumping clock does not look like a hang.
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
  /** Core times of the process so far. Undefined: unknown. */
  coreTimes(): CoreTimes | undefined;
  /** `starved`: the process had no core to work on since the last tick. */
  onTick?(starved: boolean): void;
  /** Called once. */
  onHang(reason: string): void;
}

/** A process that only sends heartbeats uses far less than this share of a core. */
const WORKING_SHARE = 0.05;
/** A starved process waits for a core nearly all the time. A stuck one waits only to send its heartbeats. */
const STARVED_SHARE = 0.5;
/** How much longer a starved process has than a silent one. */
const STARVED_PATIENCE = 10;

export function createHangMonitor(options: HangMonitorOptions): HangMonitor {
  const { heartbeatMs, hangTimeoutMs } = options;
  let silentTicks = 0;
  let starvedTicks = 0;
  let lastCpuMs = 0;
  let lastTimes: CoreTimes | undefined;

  /** A stuck process may compute forever, so it must have had no core, too. */
  function isStarved(): boolean {
    const before = lastTimes;
    lastTimes = options.coreTimes();
    if (before === undefined || lastTimes === undefined) return false;
    const ranMs = lastTimes.ranMs - before.ranMs;
    const waitedMs = lastTimes.waitedMs - before.waitedMs;
    return waitedMs > heartbeatMs * STARVED_SHARE && ranMs <= heartbeatMs * WORKING_SHARE;
  }

  function reset(): void {
    silentTicks = 0;
    starvedTicks = 0;
    lastTimes = undefined;
  }

  function hangReason(): string | undefined {
    if (silentTicks * heartbeatMs >= hangTimeoutMs) return `it made no progress for ${hangTimeoutMs / 1000} s`;
    const patienceMs = hangTimeoutMs * STARVED_PATIENCE;
    if (starvedTicks * heartbeatMs < patienceMs) return undefined;
    return `other programs left it almost no processor time for ${patienceMs / 1000} s`;
  }

  const timer = setInterval(() => {
    const busy = options.busy();
    const starved = busy && isStarved();
    if (!busy) reset();
    else if (starved) starvedTicks += 1;
    else silentTicks += 1;
    options.onTick?.(starved);
    const reason = hangReason();
    if (reason === undefined) return;
    clearInterval(timer);
    options.onHang(reason);
  }, heartbeatMs);
  timer.unref();

  return {
    progress: reset,
    heartbeat(cpuMs) {
      if (cpuMs - lastCpuMs > heartbeatMs * WORKING_SHARE) reset();
      lastCpuMs = cpuMs;
    },
    silent: () => silentTicks + starvedTicks > 1,
    stop: () => clearInterval(timer),
  };
}

/** Times of all threads of a process together, since they began. */
interface CoreTimes {
  /** On a core. */
  ranMs: number;
  /** Ready to run, but without a core. */
  waitedMs: number;
}

/** Undefined where the kernel does not say. */
export function coreTimes(pid: number): CoreTimes | undefined {
  try {
    const times = readdirSync(`/proc/${pid}/task`).map((thread) =>
      threadTimes(`/proc/${pid}/task/${thread}/schedstat`),
    );
    return {
      ranMs: times.reduce((sum, each) => sum + each.ranMs, 0),
      waitedMs: times.reduce((sum, each) => sum + each.waitedMs, 0),
    };
  } catch {
    return undefined;
  }
}

/** The file has both times in nanoseconds, then the number of turns. */
function threadTimes(file: string): CoreTimes {
  const [ran, waited] = readFileSync(file, 'utf8').split(' ').map(Number);
  return { ranMs: (ran ?? 0) / 1e6, waitedMs: (waited ?? 0) / 1e6 };
}
