import type { Logger } from '@baobab/core/ports/logger.ts';
import type { FileRetention } from './file-retention.ts';

export interface FileRetentionSchedule {
  /** Removes what a crash left behind, then sweeps at intervals, in the background. */
  start(): void;
  /** Waits for the running step. */
  stop(): Promise<void>;
}

export interface FileRetentionScheduleDependencies {
  retention: FileRetention;
  /** Removes unfinished uploads from before this server's start. */
  removeInterrupted(): Promise<number>;
  /** Removes results of batches that have ended. */
  removeBatchLeftovers(): Promise<number>;
  everyMs: number;
  /** Asked before each sweep: one of all servers on the store does it. */
  isMyTurn(): Promise<boolean>;
  /** Asked at the start: of servers that share their blobs, one removes what a crash left behind. */
  isMyTurnToRecover(): Promise<boolean>;
  logger: Pick<Logger, 'info' | 'error'>;
  stopping: AbortController;
}

export function createFileRetentionSchedule(dependencies: FileRetentionScheduleDependencies): FileRetentionSchedule {
  const { retention, removeInterrupted, removeBatchLeftovers, everyMs, isMyTurn, isMyTurnToRecover } = dependencies;
  const { logger, stopping } = dependencies;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> = Promise.resolve();

  async function step(work: () => Promise<Record<string, number>>, text: string): Promise<void> {
    if (stopping.signal.aborted) return;
    try {
      const counts = await work();
      if (Object.values(counts).some((count) => count > 0)) logger.info(counts, text);
    } catch (error) {
      logger.error({ err: error }, 'failed to remove old files; will try again');
    }
  }

  return {
    start() {
      const recover = async (): Promise<Record<string, number>> => {
        if (!(await isMyTurnToRecover())) return {};
        return {
          interrupted: await removeInterrupted(),
          orphans: await retention.removeOrphans(),
          batchResults: await removeBatchLeftovers(),
        };
      };
      const sweep = () =>
        step(async () => ((await isMyTurn()) ? retention.sweep() : {}), 'removed expired and deleted files');
      running = step(recover, 'removed files left behind by a crash').then(sweep);
      timer = setInterval(() => {
        running = running.then(sweep);
      }, everyMs);
    },
    async stop() {
      clearInterval(timer);
      stopping.abort();
      await running;
    },
  };
}
