import { usdNumber, usdNumberOrNull } from '@baobab/core/domain/money.ts';
import type { LimitRules } from '@baobab/core/domain/rate-limits.ts';
import { isoTime } from '@baobab/core/domain/time/dates.ts';
import { type Static, Type } from 'typebox';
import type { OwnKey } from '../../../../services/access/own-key.ts';
import { AppliedLimitsShape, appliedLimitsToWire } from '../limits.ts';
import { keyFields, keyFieldsToWire } from '../schema.ts';

export const OwnKeyShape = Type.Object({
  ...keyFields,
  limits: AppliedLimitsShape,
  budget: Type.Object(
    {
      limit_usd: Type.Union([Type.Number(), Type.Null()], {
        description: 'Set for this key. The lower one of key and account is `limits.monthly_budget_usd`',
      }),
      spent_usd: Type.Number({ description: 'By this key and the keys that it replaced' }),
      remaining_usd: Type.Union([Type.Number(), Type.Null()], {
        description: 'What the budgets of the key and of its account both leave; null: no budget',
      }),
      resets_at: Type.String(),
    },
    { description: 'Of this calendar month, UTC' },
  ),
});

export function ownKeyToWire({ principal, budget }: OwnKey, rules: LimitRules): Static<typeof OwnKeyShape> {
  return {
    ...keyFieldsToWire(principal.key),
    limits: appliedLimitsToWire(principal, rules),
    budget: {
      limit_usd: usdNumberOrNull(budget.limitNanoUsd),
      spent_usd: usdNumber(budget.spentNanoUsd),
      remaining_usd: usdNumberOrNull(budget.remainingNanoUsd),
      resets_at: isoTime(budget.resetsAt),
    },
  };
}
