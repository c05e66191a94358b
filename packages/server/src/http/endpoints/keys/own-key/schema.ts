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
        description: 'Null: neither the key nor its account has a budget',
      }),
      limit_from: Type.Union([Type.Enum(['key', 'account']), Type.Null()], {
        description: 'Whose budget it is, and whose spend `spent_usd` is',
      }),
      spent_usd: Type.Number({ description: 'Without a budget: what the key has spent' }),
      spent_by_key_usd: Type.Number({ description: 'By this key and the keys that it replaced' }),
      remaining_usd: Type.Union([Type.Number(), Type.Null()], { description: '`limit_usd` less `spent_usd`, or 0' }),
      resets_at: Type.String(),
    },
    { description: 'Of this calendar month, UTC: the budget of the key or of its account, whichever leaves less' },
  ),
});

export function ownKeyToWire({ principal, budget }: OwnKey, rules: LimitRules): Static<typeof OwnKeyShape> {
  return {
    ...keyFieldsToWire(principal.key),
    limits: appliedLimitsToWire(principal, rules),
    budget: {
      limit_usd: usdNumberOrNull(budget.limitNanoUsd),
      limit_from: budget.from,
      spent_usd: usdNumber(budget.spentNanoUsd),
      spent_by_key_usd: usdNumber(budget.spentByKeyNanoUsd),
      remaining_usd: usdNumberOrNull(budget.remainingNanoUsd),
      resets_at: isoTime(budget.resetsAt),
    },
  };
}
