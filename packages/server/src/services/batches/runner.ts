import type { Batch } from '@baobab/core/domain/batch.ts';
import type { JoinQuery } from '@baobab/core/ports/batches.ts';
import type { DiskSpace } from '@baobab/core/ports/disk-space.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import type { RequestSink } from '@baobab/core/ports/request-log.ts';
import { LeaseLostError } from '@baobab/core/ports/store-errors.ts';
import { createLineLanes } from '../../admission/line-lanes.ts';
import { createKeyAuthority, type KeyAuthorityDependencies } from '../access/key-authority.ts';
import type { StoreClock } from '../processes/store-clock.ts';
import { createWakeablePoll } from '../processes/wakeable-poll.ts';
import { type BatchJobDependencies, createBatchJob } from './batch-job.ts';
import { createLineRun, type LineRunDependencies } from './line-run.ts';
import { type BatchShare, createBatchShare } from './slice-run.ts';

export interface BatchRunner {
  /** Begins to claim batches and to work on them. */
  start(): void;
  /** Call it when a batch is created or cancelled. */
  wake(): void;
  /** Extends the leases of batches and slices at work. Stops work on those that another process has taken over. */
  renewLeases(leaseUntil: number): Promise<void>;
  /** Releases the batches and slices of owners that have ended. */
  releaseOthers(): Promise<void>;
  /** Starts no new lines, gives running ones this long to end, and gives the batches back. */
  stop(graceMs: number): Promise<void>;
}

export interface BatchRunnerDependencies
  extends Omit<BatchJobDependencies, 'lineRun' | 'concurrency'>,
    Pick<LineRunDependencies, 'executor' | 'laneOf'>,
    KeyAuthorityDependencies {
  /** Gets the lines that have ended. */
  requests?: RequestSink | undefined;
  settings: { concurrency: number; discountPercent: number };
  /** Interactive requests are slow because this process is busy. Asked every 50 ms. */
  isOverloaded(): boolean;
  identity: ProcessIdentity;
  clock: Pick<StoreClock, 'now' | 'isSure'>;
  /** No batch is begun while the disk is low on space. */
  space?: DiskSpace | undefined;
  logger: Pick<Logger, 'info' | 'warn' | 'error'>;
}

/** New batches and cancellations of other processes are seen after this time at most. */
const POLL_MS = 500;
const ADJUST_MS = 50;
const MAX_ACTIVE = 8;
const MAX_ACTIVE_PER_ACCOUNT = 2;
/** A batch that has run this long makes room when another account has batches waiting and none at work. */
const ROTATE_MS = 30_000;
/** Before this process retries a batch whose job failed, for example because the disk is full. */
const RETRY_MS = 5_000;

interface RunningJob {
  batch: Batch;
  share: BatchShare;
  /** Cancelled or expired. */
  over: AbortController;
  /** Another process has taken over the batch or a slice. */
  lost: AbortController;
  /** Another account is next. The batch continues later. */
  yielded: AbortController;
  startedAt: number;
  done: Promise<void>;
}

export function createBatchRunner(dependencies: BatchRunnerDependencies): BatchRunner {
  const { batches, batchSlices, settings, isOverloaded, identity, space, clock, steadyClock, logger } = dependencies;
  const { ownerId } = identity;
  const { concurrency } = settings;
  const lanes = createLineLanes({ concurrency, isOverloaded, adjustMs: ADJUST_MS });
  const lineRun = createLineRun({
    ...dependencies,
    authority: createKeyAuthority(dependencies),
    lanes,
    discountPercent: settings.discountPercent,
  });
  const work = createBatchJob({ ...dependencies, lineRun, concurrency });
  const running = new Map<string, RunningJob>();
  /** When batches whose job failed are tried again. */
  const retries = new Map<string, number>();
  /** The server stops, and then its grace period ends. */
  const stopping = new AbortController();
  const graceOver = new AbortController();
  let adjusting: NodeJS.Timeout | undefined;

  async function release({ owned }: BatchShare): Promise<void> {
    try {
      await batches.release(owned);
      await batchSlices.release(owned);
    } catch (error) {
      logger.error({ err: error, batch: owned.id }, 'failed to give a batch back, its leases will expire');
    }
  }

  async function run({ batch, share, over, lost, yielded }: Omit<RunningJob, 'done'>): Promise<void> {
    const paused = AbortSignal.any([lost.signal, stopping.signal]);
    try {
      await work(share, {
        stop: AbortSignal.any([over.signal, paused]),
        abort: AbortSignal.any([lost.signal, graceOver.signal]),
        pause: paused,
        yield: yielded.signal,
      });
      // Changes nothing if the batch has ended.
      if (paused.aborted || yielded.signal.aborted) await release(share);
    } catch (error) {
      if (error instanceof LeaseLostError) {
        logger.warn({ batch: batch.id }, 'stopped work on a batch because another process has taken it over');
      } else {
        logger.error({ err: error, batch: batch.id }, `a batch failed, retrying in ${RETRY_MS / 1000} s`);
        retries.set(batch.id, steadyClock.now() + RETRY_MS);
      }
      await release(share);
    }
  }

  function begin(batch: Batch, whole: boolean): void {
    const share = createBatchShare({ id: batch.id, ownerId }, whole);
    const [over, lost, yielded] = [new AbortController(), new AbortController(), new AbortController()];
    const job = { batch, share, over, lost, yielded, startedAt: steadyClock.now() };
    const done = run(job).finally(() => {
      running.delete(batch.id);
      polling.wake();
    });
    running.set(batch.id, { ...job, done });
  }

  /** The job that has run longest, if that is long enough to make room for another account. */
  function longestRunning(): RunningJob | undefined {
    if ([...running.values()].some(({ yielded }) => yielded.signal.aborted)) return undefined;
    const [oldest] = [...running.values()].sort((one, other) => one.startedAt - other.startedAt);
    return oldest !== undefined && steadyClock.now() - oldest.startedAt >= ROTATE_MS ? oldest : undefined;
  }

  async function poll(): Promise<void> {
    const cancelled = await batches.cancelled([...running.keys()]);
    const now = clock.now();
    for (const [id, { batch, over }] of running) if (cancelled.has(id) || now >= batch.expiresAt) over.abort();
    if (stopping.signal.aborted || !clock.isSure()) return;
    // Results could not be stored.
    if ((await space?.status())?.isLow) return;
    for (const [id, at] of retries) if (steadyClock.now() >= at) retries.delete(id);
    const room = MAX_ACTIVE - running.size;
    const makesRoom = room <= 0 ? longestRunning() : undefined;
    if (room > 0) await take({ now, limit: room, perAccount: MAX_ACTIVE_PER_ACCOUNT, unserved: false });
    else if (makesRoom !== undefined && (await take({ now, limit: 1, perAccount: 1, unserved: true }))) {
      makesRoom.yielded.abort();
    }
  }

  /** Begins with batches that need work. False: there are none. */
  async function take(search: Omit<JoinQuery, 'holding'>): Promise<boolean> {
    const { now, limit } = search;
    const holding = [...running.keys(), ...retries.keys()];
    const claimed = await batches.claim({ ...search, ownerId, leaseUntil: now + identity.leaseMs, holding });
    for (const batch of claimed) {
      if (stopping.signal.aborted) await release(createBatchShare({ id: batch.id, ownerId }, true));
      else begin(batch, true);
    }
    if (claimed.length >= limit || stopping.signal.aborted) return claimed.length > 0;
    const joined = await batchSlices.joinable({
      ...search,
      limit: limit - claimed.length,
      holding: [...running.keys(), ...retries.keys()],
    });
    if (!stopping.signal.aborted) for (const batch of joined) begin(batch, false);
    return claimed.length + joined.length > 0;
  }

  const polling = createWakeablePoll({ poll, everyMs: POLL_MS, failure: 'failed to look for batches', clock, logger });

  async function renew({ batch, share, lost }: RunningJob, leaseUntil: number): Promise<void> {
    const before = { whole: share.whole, running: [...share.running] };
    const whole = before.whole && (await batches.renew(ownerId, [batch.id], leaseUntil)).has(batch.id);
    const renewed = await batchSlices.renew(share.owned, [...share.running, ...share.storing], leaseUntil);
    // What the job has finished meanwhile is not lost.
    const isLost =
      (before.whole && share.whole && !whole) ||
      before.running.some((slice) => share.running.has(slice) && !renewed.has(slice));
    if (isLost) lost.abort(new LeaseLostError(`${ownerId} does not own the batch ${batch.id}`));
  }

  return {
    start() {
      adjusting = setInterval(lanes.adjust, ADJUST_MS);
      polling.start();
    },
    wake: polling.wake,
    async renewLeases(leaseUntil) {
      await Promise.all([...running.values()].map((job) => renew(job, leaseUntil)));
    },
    async releaseOthers() {
      await batches.releaseOthers(ownerId);
      await batchSlices.releaseOthers(ownerId);
    },
    async stop(graceMs) {
      stopping.abort();
      clearInterval(adjusting);
      const deadline = setTimeout(() => graceOver.abort(), graceMs);
      await polling.stop();
      await Promise.all([...running.values()].map(({ done }) => done));
      clearTimeout(deadline);
    },
  };
}
