import type { RequestEntry } from '@baobab/core/ports/request-log.ts';

export interface RecentSums {
  requests: number;
  errors: number;
  promptTokens: number;
  completionTokens: number;
  costNanoUsd: number;
}

const WINDOW_SECONDS = 60;
/** Accounts whose last minute is kept. */
const MAX_ACCOUNTS = 10_000;

const nothing = (): RecentSums => ({ requests: 0, errors: 0, promptTokens: 0, completionTokens: 0, costNanoUsd: 0 });

interface Second extends RecentSums {
  second: number;
}

/** What the requests of the last minute used, by account. */
export function createRecentSums(now: () => number) {
  const accounts = new Map<string, Second[]>();

  const recent = (seconds: readonly Second[]): Second[] => {
    const oldest = Math.floor(now() / 1000) - WINDOW_SECONDS;
    return seconds.filter(({ second }) => second > oldest);
  };

  function add(sum: RecentSums, entry: RecentSums): void {
    sum.requests += entry.requests;
    sum.errors += entry.errors;
    sum.promptTokens += entry.promptTokens;
    sum.completionTokens += entry.completionTokens;
    sum.costNanoUsd += entry.costNanoUsd;
  }

  return {
    record({ accountId, status, promptTokens, completionTokens, costNanoUsd }: RequestEntry): void {
      const second = Math.floor(now() / 1000);
      let seconds = accounts.get(accountId) ?? [];
      if (seconds.at(-1)?.second !== second) {
        seconds = [...recent(seconds), { second, ...nothing() }];
        accounts.delete(accountId);
        if (accounts.size >= MAX_ACCOUNTS) accounts.delete(accounts.keys().next().value as string);
        accounts.set(accountId, seconds);
      }
      const errors = status >= 400 ? 1 : 0;
      add(seconds.at(-1) as Second, { requests: 1, errors, promptTokens, completionTokens, costNanoUsd });
    },
    /** Undefined: of all accounts. */
    of(accountId: string | undefined): RecentSums {
      const sum = nothing();
      const chosen = accountId === undefined ? [...accounts.values()] : [accounts.get(accountId) ?? []];
      for (const seconds of chosen) for (const each of recent(seconds)) add(sum, each);
      return sum;
    },
  };
}
