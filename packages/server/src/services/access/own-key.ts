import type { Principal } from '@baobab/core/domain/principal.ts';
import { bucketBounds, bucketIndex } from '@baobab/core/domain/usage-window.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { UsageReader } from '@baobab/core/ports/usage.ts';

/** What the holder of a key may know of it. */
export interface OwnKey {
  principal: Principal;
  /** Of this calendar month, UTC: the budget of the key or of its account, whichever leaves less. */
  budget: {
    limitNanoUsd: number | null;
    /** Null: neither has one. */
    from: 'key' | 'account' | null;
    /** Counted against it, or spent by the key if there is none. */
    spentNanoUsd: bigint;
    spentByKeyNanoUsd: bigint;
    remainingNanoUsd: bigint | null;
    resetsAt: number;
  };
}

export interface OwnKeyService {
  describe(principal: Principal): Promise<OwnKey>;
}

export interface OwnKeyDependencies {
  usage: Pick<UsageReader, 'spentNanoUsd'>;
  clock: Clock;
}

export function createOwnKey({ usage, clock }: OwnKeyDependencies): OwnKeyService {
  return {
    async describe(principal) {
      const { key, account } = principal;
      const month = bucketBounds('month', bucketIndex('month', clock.now()));
      const spent = await usage.spentNanoUsd({ accountId: account.id, originalKeyId: key.originalId, ...month });
      const budgetOf = (from: 'key' | 'account', limitNanoUsd: number | null, spentNanoUsd: bigint) => {
        if (limitNanoUsd === null) return [];
        const left = BigInt(limitNanoUsd) - spentNanoUsd;
        return [{ limitNanoUsd, from, spentNanoUsd, remainingNanoUsd: left < 0n ? 0n : left }];
      };
      const ofAccount =
        account.monthlyBudgetNanoUsd === null ? 0n : await usage.spentNanoUsd({ accountId: account.id, ...month });
      const [tightest = { limitNanoUsd: null, from: null, spentNanoUsd: spent, remainingNanoUsd: null }] = [
        ...budgetOf('key', key.monthlyBudgetNanoUsd, spent),
        ...budgetOf('account', account.monthlyBudgetNanoUsd, ofAccount),
      ].sort((one, other) => Number(one.remainingNanoUsd - other.remainingNanoUsd));
      return { principal, budget: { ...tightest, spentByKeyNanoUsd: spent, resetsAt: month.end } };
    },
  };
}
