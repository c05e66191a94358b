import type { Clock } from '@baobab/core/ports/clock.ts';

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
  let file = '';
  /** Reports what came after the last report: the next chunk of a slow download may take long. */
  let timer: NodeJS.Timeout | undefined;
  /** Oldest first. The speed is that of the last seconds. */
  const samples: { atMs: number; bytes: number }[] = [];

  function emit(): void {
    clearTimeout(timer);
    timer = undefined;
    const nowMs = clock.now();
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
    add(name: string, bytes: number): void {
      receivedBytes += bytes;
      file = name;
      if (clock.now() - reportedAtMs >= REPORT_EVERY_MS) emit();
      else timer ??= setTimeout(emit, REPORT_EVERY_MS).unref();
    },
    finish(name: string): void {
      file = name;
      emit();
    },
    [Symbol.dispose](): void {
      clearTimeout(timer);
    },
  };
}
