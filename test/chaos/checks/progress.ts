import { setTimeout as sleep } from 'node:timers/promises';

export interface Progress {
  /** Grows while work goes on. */
  done: number;
  isOver: boolean;
}

export interface ProgressLimits {
  /** Between two looks. */
  everyMs: number;
  /** The longest time without any progress. */
  stallMs: number;
  /** The longest time altogether. */
  totalMs: number;
}

export interface ProgressEnd {
  /** Why it did not wait any longer. Undefined: all is done. */
  problem?: string;
  seconds: number;
  /** The longest time without any progress. */
  longestPauseSeconds: number;
}

/**
 * Waits as long as work goes on. How long it takes in all depends on the machine; that nothing happens for a while does not. A look that
 * fails shows no progress.
 */
export async function whileProgressing(look: () => Promise<Progress>, limits: ProgressLimits): Promise<ProgressEnd> {
  const startMs = performance.now();
  let [done, sinceMs, longestMs] = [Number.NEGATIVE_INFINITY, startMs, 0];
  const end = (problem?: string): ProgressEnd => ({
    ...(problem !== undefined && { problem }),
    seconds: (performance.now() - startMs) / 1000,
    longestPauseSeconds: longestMs / 1000,
  });
  for (;;) {
    const progress = await look().catch(() => undefined);
    const nowMs = performance.now();
    longestMs = Math.max(longestMs, nowMs - sinceMs);
    if (progress !== undefined && progress.done > done) [done, sinceMs] = [progress.done, nowMs];
    if (progress?.isOver) return end();
    if (nowMs - sinceMs > limits.stallMs) return end(`without progress for ${limits.stallMs / 1000} s`);
    if (nowMs - startMs > limits.totalMs) return end(`not within ${limits.totalMs / 1000} s`);
    await sleep(limits.everyMs);
  }
}
