import { MODALITIES, type Modality } from '@baobab/core/domain/model.ts';
import { usdNumberOrNull } from '@baobab/core/domain/money.ts';
import {
  appliedBudget,
  appliedLimits,
  LIMIT_SOURCES,
  type Limited,
  type LimitRules,
  type ModelLimits,
} from '@baobab/core/domain/rate-limits.ts';
import { type Static, Type } from 'typebox';

const nullableInteger = Type.Union([Type.Integer(), Type.Null()]);
const source = Type.Union([Type.Enum([...LIMIT_SOURCES]), Type.Null()]);
const Rate = Type.Object({ rpm: nullableInteger, rpm_from: source, tpm: nullableInteger, tpm_from: source });

/** The limits that hold. Those that are set are fields of the key and of the account. */
export const AppliedLimitsShape = Type.Object(
  {
    chat: Rate,
    embedding: Rate,
    rerank: Rate,
    audio: Rate,
    models: Type.Array(Type.Object({ model: Type.String(), ...Rate.properties }), {
      description: 'Models with limits of their own, where these hold',
    }),
    concurrency: nullableInteger,
    concurrency_from: source,
    monthly_budget_usd: Type.Union([Type.Number(), Type.Null()]),
    monthly_budget_from: source,
  },
  {
    description:
      'The limits that hold, those of requests and tokens a minute for each model, and where each was set: `rpm`, `tpm`, `concurrency` and `monthly_budget_usd` of the key or of its account, the model, or `limits` in the settings. An account has those of a key without limits of its own',
  },
);

export function appliedLimitsToWire(
  limited: Limited,
  { defaults, models }: LimitRules,
): Static<typeof AppliedLimitsShape> {
  const rate = (modality: Modality, model?: ModelLimits): Static<typeof Rate> => {
    const { rpm, tpm } = appliedLimits(limited, modality, { defaults, model });
    return { rpm: rpm.value, rpm_from: rpm.from, tpm: tpm.value, tpm_from: tpm.from };
  };
  const { concurrency } = appliedLimits(limited, 'chat', { defaults });
  const budget = appliedBudget(limited);
  return {
    ...(Object.fromEntries(MODALITIES.map((modality) => [modality, rate(modality)])) as Record<
      Modality,
      Static<typeof Rate>
    >),
    models: models
      .map(({ slug, modality, limits }) => ({ model: slug, ...rate(modality, limits) }))
      .filter(({ rpm_from: ofRequests, tpm_from: ofTokens }) => ofRequests === 'model' || ofTokens === 'model'),
    concurrency: concurrency.value,
    concurrency_from: concurrency.from,
    monthly_budget_usd: usdNumberOrNull(budget.value),
    monthly_budget_from: budget.from,
  };
}
