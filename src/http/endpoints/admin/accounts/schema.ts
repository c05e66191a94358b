import { type Static, Type } from 'typebox';
import { isoTime } from '../../../../domain/dates.ts';
import type { Account } from '../../../../domain/principal.ts';
import { limitFields, toUsd } from '../schema.ts';

export const NewAccount = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 64, description: 'Of the new account' }),
  ...limitFields,
});

export const AccountShape = Type.Object({
  id: Type.String(),
  object: Type.Literal('account'),
  name: Type.String(),
  created_at: Type.String(),
  rpm: Type.Union([Type.Integer(), Type.Null()]),
  tpm: Type.Union([Type.Integer(), Type.Null()]),
  monthly_budget_usd: Type.Union([Type.Number(), Type.Null()]),
});

export const accountToWire = (account: Account): Static<typeof AccountShape> => ({
  id: account.id,
  object: 'account',
  name: account.name,
  created_at: isoTime(account.createdAt),
  rpm: account.rpm,
  tpm: account.tpm,
  monthly_budget_usd: toUsd(account.monthlyBudgetNanoUsd),
});
