import type { Logger } from '@baobab/core/ports/logger.ts';
import { AccountContent, type AccountContentDependencies } from './account-content.ts';

/** Removes the content of deleted accounts: batches, files, responses and stored answers. The ledger stays for billing. */
export interface AccountErasure {
  /** Looks for deleted accounts now and at intervals, in the background, when it is this server's turn. */
  start(): void;
  /** Call it when an account was deleted on this server. */
  wake(): void;
  /** Waits for the running pass. */
  stop(): Promise<void>;
}

export interface AccountErasureDependencies extends AccountContentDependencies {
  /** Asked before each look: one of all servers on the store does it in each interval. */
  isMyTurn(everyMs: number): Promise<boolean>;
  logger: Pick<Logger, 'info' | 'error'>;
}

/** How soon accounts deleted by a command, or by a server that has ended, are found. */
const LOOK_MS = 60_000;
/** After a pass that found something: cancelled batches need a moment to end. */
const AGAIN_MS = 1_000;

export function createAccountErasure(dependencies: AccountErasureDependencies): AccountErasure {
  const { isMyTurn, logger } = dependencies;
  const content = new AccountContent(dependencies);
  const stopping = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let lookAgain = false;

  async function work(): Promise<void> {
    let found = 0;
    try {
      if (!lookAgain) lookAgain = await isMyTurn(LOOK_MS);
      while (lookAgain && !stopping.signal.aborted) {
        lookAgain = false;
        found = await content.erase(stopping.signal);
      }
    } catch (error) {
      logger.error({ err: error }, 'failed to erase a deleted account; will try again');
    }
    running = undefined;
    if (stopping.signal.aborted) return;
    // This server goes on with what it has begun.
    timer = found > 0 ? setTimeout(wake, AGAIN_MS) : setTimeout(look, LOOK_MS);
  }

  function look(): void {
    if (stopping.signal.aborted || running !== undefined) return;
    clearTimeout(timer);
    running = work();
  }

  /** One pass at a time. A call during one causes another after it. */
  function wake(): void {
    lookAgain = true;
    look();
  }

  return {
    start: look,
    wake,
    async stop() {
      stopping.abort();
      clearTimeout(timer);
      await running;
    },
  };
}
