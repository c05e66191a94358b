import type { Attempt } from '../load/attempts.ts';
import type { Timeline } from '../timeline.ts';

/** Clients of other requests may see errors for this long after a fault is over. */
const GRACE_MS = 12_000;
const SLOWEST_MS = 60_000;

/** Faults that may make requests fail. Redis may not. */
const EXPLAINS = ['kill', 'postgres-fast', 'postgres-immediate', 'cut-postgres'];
const EXPLAINS_FILES = ['cut-s3', 'slow-s3'];
const FILE_KINDS = ['upload', 'download', 'delete', 'batch file', 'batch'];
/** Refusals that are part of the load. */
const EXPECTED = ['429 rpm_exceeded', '429 tpm_exceeded', '429 concurrency_exceeded', '429 budget_exceeded'];

export interface FailureReport {
  lines: string[];
  findings: string[];
}

/** Counts failures by reason. Those that no fault explains, unexpected refusals and requests that hang are findings. */
export function checkFailures(attempts: readonly Attempt[], timeline: Timeline): FailureReport {
  const findings: string[] = [];
  const counts = new Map<string, number>();
  for (const { kind, account, outcome, reason, startMs, endMs, requestId } of attempts) {
    if (endMs - startMs > SLOWEST_MS)
      findings.push(`${kind} of ${account} took ${((endMs - startMs) / 1000).toFixed(0)} s: ${reason} ${requestId}`);
    if (outcome === 'acknowledged' || EXPECTED.includes(reason)) continue;
    counts.set(`${kind}: ${reason}`, (counts.get(`${kind}: ${reason}`) ?? 0) + 1);
    const active = timeline.kindsBefore(endMs, GRACE_MS + (endMs - startMs));
    const explains = FILE_KINDS.includes(kind) ? [...EXPLAINS, ...EXPLAINS_FILES] : EXPLAINS;
    if (outcome === 'refused') findings.push(`${kind} of ${account} was refused with ${reason} ${requestId}`);
    else if (!explains.some((fault) => active.has(fault)))
      findings.push(
        `${kind} of ${account} failed with ${reason} ${requestId}, and only ${[...active].join(', ') || 'nothing'} was wrong`,
      );
  }
  const lines = [...counts]
    .toSorted(([, left], [, right]) => right - left)
    .map(([reason, count]) => `${count} × ${reason}`);
  return { lines, findings };
}
