import type { ApiKey } from '@baobab/core/domain/principal.ts';
import { bucketBounds, bucketIndex } from '@baobab/core/domain/usage-window.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { UsageReader } from '@baobab/core/ports/usage.ts';

export interface Spending {
  /** What each key spent this calendar month, UTC, with the keys that it replaced or that replaced it. */
  ofKeys(keys: readonly ApiKey[]): Promise<Map<string, bigint>>;
}

/** Keys of one account at most. */
const MAX_KEYS = 100_000;

export function createSpending({ usage, clock }: { usage: Pick<UsageReader, 'query'>; clock: Clock }): Spending {
  return {
    async ofKeys(keys) {
      const window = bucketBounds('month', bucketIndex('month', clock.now()));
      const spent = new Map<string, bigint>();
      for (const accountId of new Set(keys.map((key) => key.accountId))) {
        const query = { ...window, accountId, bucket: 'month', groupBy: ['key'], limit: MAX_KEYS } as const;
        for (const { keyId = '', originalKeyId: original = keyId, costNanoUsd } of await usage.query(query)) {
          spent.set(original, (spent.get(original) ?? 0n) + costNanoUsd);
        }
      }
      return new Map(keys.map(({ id, originalId }) => [id, spent.get(originalId) ?? 0n]));
    },
  };
}
