import type { AccountLimits, Changes } from '@baobab/core/domain/principal.ts';
import { type Static, type TObject, Type } from 'typebox';

/** Larger numbers would lose digits in the store. */
const MAX_LIMIT = 1_000_000_000_000;

export const limit = (description: string, maximum = MAX_LIMIT) =>
  Type.Optional(Type.Union([Type.Integer({ minimum: 1, maximum }), Type.Null()], { description }));

/** Limits of accounts and keys. */
export const limitFields = {
  rpm: limit('Requests a minute'),
  tpm: limit('Tokens a minute'),
  concurrency: limit('Requests at a time'),
  monthly_budget_usd: Type.Optional(
    Type.Union([Type.Number({ minimum: 0, maximum: 9_000_000 }), Type.Null()], {
      description: 'US dollars in a calendar month, UTC',
    }),
  ),
};

type LimitFields = Static<TObject<typeof limitFields>>;

const NANO = 1_000_000_000;
const toNanoUsd = <T extends null | undefined>(usd: number | T): number | T =>
  typeof usd === 'number' ? Math.round(usd * NANO) : usd;

export const limitsFromWire = (body: LimitFields): Changes<AccountLimits> => ({
  rpm: body.rpm,
  tpm: body.tpm,
  concurrency: body.concurrency,
  monthlyBudgetNanoUsd: toNanoUsd(body.monthly_budget_usd),
});
