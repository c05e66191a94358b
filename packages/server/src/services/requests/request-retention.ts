import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { RequestLog } from '@baobab/core/ports/request-log.ts';
import type { RequestTextsService } from './request-texts.ts';

export interface RequestRetention {
  /** Removes old requests and texts, and of each account the requests beyond its newest. */
  sweep(): Promise<void>;
  /** Removes all requests and texts of an account, and says how many. */
  eraseAccount(accountId: string): Promise<number>;
}

export interface RequestRetentionDependencies {
  log: Pick<RequestLog, 'removeOlder' | 'removeBeyond' | 'accountsBeyond'>;
  texts: Pick<RequestTextsService, 'sweep' | 'eraseAccount'>;
  settings: { retentionDays: number; maxPerAccount: number };
  clock: Clock;
}

/** Removes group by group, so that other writes need not wait long. */
async function untilNone(remove: () => Promise<number>): Promise<number> {
  let total = 0;
  for (let removed = await remove(); removed > 0; removed = await remove()) total += removed;
  return total;
}

export function createRequestRetention(dependencies: RequestRetentionDependencies): RequestRetention {
  const { log, texts, settings, clock } = dependencies;
  return {
    async sweep() {
      await texts.sweep();
      const oldest = clock.now() - settings.retentionDays * DAY_MS;
      await untilNone(() => log.removeOlder(oldest));
      if (settings.maxPerAccount === 0) return;
      for (const id of await log.accountsBeyond(settings.maxPerAccount)) {
        await untilNone(() => log.removeBeyond(id, settings.maxPerAccount));
      }
    },
    eraseAccount: async (accountId) =>
      (await texts.eraseAccount(accountId)) + (await untilNone(() => log.removeBeyond(accountId, 0))),
  };
}
