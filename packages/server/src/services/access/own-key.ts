import type { Principal } from '@baobab/core/domain/principal.ts';
import { bucketBounds, bucketIndex } from '@baobab/core/domain/usage-window.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { UsageReader } from '@baobab/core/ports/usage.ts';

/** What the holder of a key may know of it. */
export interface OwnKey {
  principal: Principal;
  /** Budget of this calendar month, UTC. */
  budget: {
    limitNanoUsd: number | null;
    spentNanoUsd: bigint;
    /** What the budgets of the key and of its account both leave. Null: neither has one. */
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
      const left: bigint[] = [];
      if (key.monthlyBudgetNanoUsd !== null) left.push(BigInt(key.monthlyBudgetNanoUsd) - spent);
      if (account.monthlyBudgetNanoUsd !== null) {
        const ofAccount = await usage.spentNanoUsd({ accountId: account.id, ...month });
        left.push(BigInt(account.monthlyBudgetNanoUsd) - ofAccount);
      }
      const least = left.reduce<bigint | null>((one, other) => (one === null || other < one ? other : one), null);
      return {
        principal,
        budget: {
          limitNanoUsd: key.monthlyBudgetNanoUsd,
          spentNanoUsd: spent,
          remainingNanoUsd: least !== null && least < 0n ? 0n : least,
          resetsAt: month.end,
        },
      };
    },
  };
}
