import { cancellation } from '@baobab/core/errors/cancellation.ts';

/** Lets each account do a few things of one kind at a time. The others of the account wait, in order of arrival. */
export interface AccountTurns {
  /** Rejects without doing the work if the signal fires while it waits. Once begun, its turn lasts until the work ends. */
  run<T>(accountId: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T>;
}

export interface AccountTurnsOptions {
  atOnce: number;
  /** How many of one account may wait, and the error of those above. Any number by default. */
  waiting?: { most: number; refusal(): Error };
}

interface Turns {
  running: number;
  waiting: Set<() => void>;
}

export function createAccountTurns({ atOnce, waiting: bound }: AccountTurnsOptions): AccountTurns {
  const accounts = new Map<string, Turns>();

  function end(accountId: string, turns: Turns): void {
    const [begin] = turns.waiting;
    if (begin !== undefined) begin();
    else {
      turns.running -= 1;
      if (turns.running === 0) accounts.delete(accountId);
    }
  }

  return {
    async run(accountId, work, signal) {
      if (signal?.aborted) throw cancellation(signal);
      const turns = accounts.get(accountId) ?? { running: 0, waiting: new Set() };
      if (turns.running >= atOnce) {
        if (bound !== undefined && turns.waiting.size >= bound.most) throw bound.refusal();
        await waitIn(turns.waiting, signal);
      } else {
        turns.running += 1;
        accounts.set(accountId, turns);
      }
      try {
        return await work();
      } finally {
        // Not at once: the caller uses the result first, and the event loop does what has arrived from others meanwhile.
        setImmediate(end, accountId, turns);
      }
    },
  };
}

/** Resolves when another one has ended, whose turn it takes over. */
function waitIn(waiting: Turns['waiting'], signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const leave = () => {
      waiting.delete(begin);
      if (signal !== undefined) reject(cancellation(signal));
    };
    const begin = () => {
      waiting.delete(begin);
      signal?.removeEventListener('abort', leave);
      resolve();
    };
    signal?.addEventListener('abort', leave, { once: true });
    waiting.add(begin);
  });
}
