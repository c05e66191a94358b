import type { Batch } from '../../domain/batch.ts';
import type { BatchRepository } from '../../ports/batches.ts';
import type { BlobStore } from '../../ports/blobs.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Logger } from '../../ports/logger.ts';
import { type BatchJobDependencies, createBatchJob } from './batch-job.ts';
import { createConcurrencyControl } from './concurrency-control.ts';
import { createKeyAuthority, type KeyAuthorityDependencies } from './key-authority.ts';
import type { LineExecutor } from './line-run.ts';
import { createLineRun } from './line-run.ts';
import { createLineSlots } from './line-slots.ts';
import { BATCH_BLOBS } from './result-writer.ts';

export interface BatchRunner {
  /** Takes up what the last server left. */
  start(): void;
  /** There is a new batch, or one was cancelled. */
  wake(): void;
  /** Takes no new lines; those at work get so long to end. Every batch goes on with the next start. */
  stop(graceMs: number): Promise<void>;
}

export interface BatchRunnerDependencies
  extends Omit<BatchJobDependencies, 'slots' | 'lineRun' | 'maxOutstanding'>,
    KeyAuthorityDependencies {
  batches: BatchRepository;
  blobs: BlobStore;
  executor: LineExecutor;
  settings: { concurrency: number; discountPercent: number };
  /** Interactive requests that wait or are at work. */
  interactiveRequests(): number;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'error'>;
}

/** New batches and cancellations of other processes are seen after this time at most. */
const POLL_MS = 500;
const ADJUST_MS = 50;
const MAX_ACTIVE = 8;
const MAX_ACTIVE_PER_ACCOUNT = 2;
const MAX_WAITING = 1_000;
/** After a failure of the store or the disk. */
const REST_MS = 5_000;

interface Running {
  batch: Batch;
  stop: AbortController;
  done: Promise<void>;
}

export function createBatchRunner(dependencies: BatchRunnerDependencies): BatchRunner {
  const { batches, blobs, settings, interactiveRequests, clock, logger } = dependencies;
  const slots = createLineSlots();
  const concurrency = createConcurrencyControl(settings.concurrency);
  const lineRun = createLineRun({
    ...dependencies,
    authority: createKeyAuthority(dependencies),
    slots,
    discountPercent: settings.discountPercent,
  });
  // More than can be at work: whoever has the fewest places must be waiting at the moment when one comes free.
  const maxOutstanding = 2 * settings.concurrency;
  const work = createBatchJob({ ...dependencies, slots, lineRun, maxOutstanding });
  const running = new Map<string, Running>();
  const restingUntil = new Map<string, number>();
  const pause = new AbortController();
  const abort = new AbortController();
  const startedAt = clock.now();
  const timers: NodeJS.Timeout[] = [];
  let started = false;
  let polling: Promise<void> | undefined;
  let pollAgain = false;

  function begin(batch: Batch): void {
    const stop = new AbortController();
    const signals = { stop: AbortSignal.any([stop.signal, pause.signal]), abort: abort.signal, pause: pause.signal };
    const done = work(batch.id, signals)
      .catch((error) => {
        logger.error({ err: error, batch: batch.id }, 'a batch was interrupted; it goes on in a moment');
        restingUntil.set(batch.id, clock.now() + REST_MS);
      })
      .finally(() => {
        running.delete(batch.id);
        wake();
      });
    running.set(batch.id, { batch, stop, done });
  }

  async function poll(): Promise<void> {
    const cancelled = await batches.cancelled([...running.keys()]);
    const now = clock.now();
    for (const [id, { batch, stop }] of running) if (cancelled.has(id) || now >= batch.expiresAt) stop.abort();
    if (running.size >= MAX_ACTIVE) return;
    for (const batch of await batches.listActive(MAX_WAITING)) {
      if (running.size >= MAX_ACTIVE || pause.signal.aborted) return;
      if (running.has(batch.id) || (restingUntil.get(batch.id) ?? 0) > now) continue;
      const ofAccount = [...running.values()].filter((each) => each.batch.accountId === batch.accountId).length;
      if (ofAccount >= MAX_ACTIVE_PER_ACCOUNT) continue;
      restingUntil.delete(batch.id);
      begin(batch);
    }
  }

  /** One look at a time; a call during one asks for another behind it. */
  function wake(): void {
    pollAgain = true;
    if (!started || polling !== undefined || pause.signal.aborted) return;
    polling = (async () => {
      while (pollAgain && !pause.signal.aborted) {
        pollAgain = false;
        try {
          await poll();
        } catch (error) {
          logger.error({ err: error }, 'the store could not be asked for batches');
        }
      }
      polling = undefined;
    })();
  }

  /** Answers of batches that have ended, left behind by a crash right after. */
  async function removeLeftovers(): Promise<void> {
    let [known, ended]: [string | undefined, boolean] = [undefined, false];
    for await (const { key, modifiedAt } of blobs.list(BATCH_BLOBS)) {
      if (pause.signal.aborted) return;
      const id = key.split('/')[1] ?? '';
      if (id !== known) {
        known = id;
        const batch = await batches.get(id);
        ended = batch === undefined || batch.endedAt !== null;
      }
      if (ended && modifiedAt < startedAt) await blobs.delete(key);
    }
  }

  return {
    start() {
      started = true;
      timers.push(
        setInterval(wake, POLL_MS),
        setInterval(() => {
          if (running.size > 0) slots.setLimit(concurrency.adjust(interactiveRequests()));
        }, ADJUST_MS),
      );
      slots.setLimit(settings.concurrency);
      removeLeftovers().catch((error) => logger.error({ err: error }, 'leftovers of batches could not be removed'));
      wake();
    },
    wake,
    async stop(graceMs) {
      pause.abort();
      for (const timer of timers) clearInterval(timer);
      const deadline = setTimeout(() => abort.abort(), graceMs);
      await polling;
      await Promise.all([...running.values()].map(({ done }) => done));
      clearTimeout(deadline);
    },
  };
}
