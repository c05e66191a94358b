import type { Clock } from '../ports/clock.ts';

/** Bytes of the whole model. `file` is the one being received. */
export interface PullProgress {
  file: string;
  receivedBytes: number;
  /** Null until the source reports it. */
  totalBytes: number | null;
  bytesPerSecond: number;
  secondsLeft: number | null;
}

const REPORT_EVERY_MS = 100;
const WINDOW_MS = 5_000;

export function createProgressMeter(clock: Clock, totalBytes: number | null, report: (progress: PullProgress) => void) {
  let receivedBytes = 0;
  let reportedAtMs = Number.NEGATIVE_INFINITY;
  /** Oldest first. The speed is that of the last seconds. */
  const samples: { atMs: number; bytes: number }[] = [];

  function emit(file: string, nowMs: number): void {
    reportedAtMs = nowMs;
    samples.push({ atMs: nowMs, bytes: receivedBytes });
    while (samples.length > 2 && (samples[0]?.atMs ?? nowMs) < nowMs - WINDOW_MS) samples.shift();
    const first = samples[0] ?? { atMs: nowMs, bytes: receivedBytes };
    const elapsedMs = nowMs - first.atMs;
    const bytesPerSecond = elapsedMs > 0 ? ((receivedBytes - first.bytes) * 1000) / elapsedMs : 0;
    const leftBytes = totalBytes === null ? null : Math.max(0, totalBytes - receivedBytes);
    const secondsLeft = leftBytes === null || bytesPerSecond === 0 ? null : leftBytes / bytesPerSecond;
    report({ file, receivedBytes, totalBytes, bytesPerSecond, secondsLeft });
  }

  return {
    /** Bytes of an earlier pull. They count as received, but not for the speed. */
    skip(bytes: number): void {
      receivedBytes += bytes;
    },
    add(file: string, bytes: number): void {
      receivedBytes += bytes;
      const nowMs = clock.now();
      if (nowMs - reportedAtMs >= REPORT_EVERY_MS) emit(file, nowMs);
    },
    finish(file: string): void {
      emit(file, clock.now());
    },
  };
}
