import type { Attempt } from '../load/attempts.ts';
import type { TimelineEvent } from '../timeline.ts';

const seconds = (ms: number): string => (ms / 1000).toFixed(1);

/** For each fault that was the only one: how long requests failed, counted from its start. */
export function describeRecovery(attempts: readonly Attempt[], events: readonly TimelineEvent[]): string[] {
  return events.flatMap(({ kind, startMs, endMs = startMs }, index) => {
    const nextMs = events[index + 1]?.startMs ?? Number.POSITIVE_INFINITY;
    const previousMs = events[index - 1]?.endMs ?? 0;
    if (nextMs < endMs || previousMs > startMs) return [];
    const failed = attempts.filter(
      (attempt) => attempt.outcome === 'failed' && attempt.endMs >= startMs && attempt.endMs < nextMs,
    );
    const lastMs = Math.max(startMs, ...failed.map((attempt) => attempt.endMs));
    const failures =
      failed.length === 0
        ? 'no request failed'
        : `${failed.length} failed, the last after ${seconds(lastMs - startMs)} s`;
    return [`${kind} for ${seconds(endMs - startMs)} s: ${failures}`];
  });
}
