import { MODALITIES } from '@baobab/core/domain/model.ts';
import { usdNumber, usdNumberOrNull } from '@baobab/core/domain/money.ts';
import { isoTime } from '@baobab/core/domain/time/dates.ts';
import { type Static, Type } from 'typebox';
import type { OwnKey } from '../../../../services/access/own-key.ts';
import { keyFields, keyFieldsToWire } from '../schema.ts';

const nullableNumber = Type.Union([Type.Number(), Type.Null()]);
const nullableInteger = Type.Union([Type.Integer(), Type.Null()]);
const Rate = Type.Object({ rpm: nullableInteger, tpm: nullableInteger });

export const OwnKeyShape = Type.Object({
  ...keyFields,
  limits: Type.Object(
    {
      concurrency: nullableInteger,
      chat: Rate,
      embedding: Rate,
      rerank: Rate,
      audio: Rate,
    },
    { description: 'Requests and tokens a minute for each model; a model may have limits of its own' },
  ),
  budget: Type.Object(
    {
      limit_usd: nullableNumber,
      spent_usd: Type.Number({ description: 'By this key and the keys that it replaced' }),
      remaining_usd: Type.Union([Type.Number(), Type.Null()], {
        description: 'What the budgets of the key and of its account both leave; null: no budget',
      }),
      resets_at: Type.String(),
    },
    { description: 'Of this calendar month, UTC' },
  ),
});

export function ownKeyToWire({ key, limits, budget }: OwnKey): Static<typeof OwnKeyShape> {
  const rates = Object.fromEntries(
    MODALITIES.map((modality) => [modality, { rpm: limits[modality].rpm, tpm: limits[modality].tpm }]),
  ) as Record<(typeof MODALITIES)[number], Static<typeof Rate>>;
  return {
    ...keyFieldsToWire(key),
    limits: { concurrency: limits.chat.concurrency, ...rates },
    budget: {
      limit_usd: usdNumberOrNull(budget.limitNanoUsd),
      spent_usd: usdNumber(budget.spentNanoUsd),
      remaining_usd: usdNumberOrNull(budget.remainingNanoUsd),
      resets_at: isoTime(budget.resetsAt),
    },
  };
}
