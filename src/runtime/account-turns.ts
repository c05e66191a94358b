/** Lets each account do a few things of one kind at a time. The others of the account wait. */
export interface AccountTurns {
  run<T>(accountId: string, work: () => Promise<T>): Promise<T>;
}

export function createAccountTurns(atOnce: number): AccountTurns {
  const accounts = new Map<string, { running: number; waiting: (() => void)[] }>();
  return {
    async run(accountId, work) {
      const turns = accounts.get(accountId) ?? { running: 0, waiting: [] };
      accounts.set(accountId, turns);
      if (turns.running < atOnce) turns.running += 1;
      else await new Promise<void>((resolve) => turns.waiting.push(resolve));
      try {
        return await work();
      } finally {
        const next = turns.waiting.shift();
        // The next one takes over the place.
        if (next !== undefined) next();
        else {
          turns.running -= 1;
          if (turns.running === 0) accounts.delete(accountId);
        }
      }
    },
  };
}
