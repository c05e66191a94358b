import type { BatchLane } from '@baobab/core/engine/engine.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { InteractiveLoad } from '../../admission/interactive-load.ts';
import type { Router } from './router.ts';
import type { Upstream } from './upstream.ts';

export interface RemoteBatchLaneOptions {
  /** `slug@version` */
  name: string;
  members(): readonly Upstream[];
  router: Pick<Router, 'interactiveWaits' | 'lastRefusedAt'>;
  interactive: InteractiveLoad;
  clock: Clock;
}

/** An upstream that refuses requests needs longer to have room again than a processor that has become idle. */
const RECOVERY_MS = 8_000;
/** Twice as long as the runner takes to look again. */
const REFUSED_MS = 100;

/**
 * Batches at the upstreams of one model. Only its own interactive requests matter to them: those of other models run elsewhere. While there
 * are some, lines take a quarter of the slots. They make more room when an interactive request has to wait or an upstream is busy.
 */
export function createRemoteBatchLane({
  name,
  members,
  router,
  interactive,
  clock,
}: RemoteBatchLaneOptions): BatchLane {
  function slots(of: (upstream: Upstream) => number): number {
    let sum = 0;
    for (const upstream of members()) if (upstream.available()) sum += of(upstream);
    return sum;
  }
  return {
    name,
    recoveryMs: RECOVERY_MS,
    most(wanted) {
      const isQuiet = !interactive.isPresent();
      const all = slots(({ batchSlots, settings }) => (isQuiet ? batchSlots : settings.maxConcurrency));
      return Math.max(1, Math.floor(Math.min(wanted, all) / (isQuiet ? 1 : 4)));
    },
    mustYield: () => router.interactiveWaits() || clock.now() - router.lastRefusedAt() < REFUSED_MS,
  };
}
