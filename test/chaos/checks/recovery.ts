import type { Attempt } from '../load/attempts.ts';
import type { TimelineEvent } from '../timeline.ts';

const seconds = (ms: number): string => (ms / 1000).toFixed(1);
/** A fault belongs to no other one that was over for this long before it, or begins this long after it. */
const APART_MS = 2_000;

/** For each fault that was the only one: how many requests failed, for how long from its start, and how long the slowest one took. */
export function describeRecovery(attempts: readonly Attempt[], events: readonly TimelineEvent[]): string[] {
  return events.flatMap((event) => {
    const { kind, startMs, endMs = startMs } = event;
    const others = events.filter((other) => other !== event);
    const nextMs = Math.min(...others.map((other) => other.startMs).filter((ms) => ms >= startMs));
    const previousMs = Math.max(...others.filter((other) => other.startMs < startMs).map((other) => other.endMs ?? 0));
    if (nextMs < endMs + APART_MS || previousMs > startMs - APART_MS) return [];
    const during = attempts.filter((attempt) => attempt.endMs >= startMs && attempt.startMs < Math.min(nextMs, endMs));
    const failed = during.filter(({ outcome }) => outcome === 'failed');
    const lastMs = Math.max(startMs, ...failed.map((attempt) => attempt.endMs));
    const slowest = during.toSorted((left, right) => right.endMs - right.startMs - (left.endMs - left.startMs))[0];
    const failures =
      failed.length === 0
        ? 'no request failed'
        : `${failed.length} of ${during.length} failed, the last after ${seconds(lastMs - startMs)} s`;
    const slow = slowest === undefined ? '' : `, slowest ${slowest.kind} ${seconds(slowest.endMs - slowest.startMs)} s`;
    return [`${kind} for ${seconds(endMs - startMs)} s: ${failures}${slow}`];
  });
}
