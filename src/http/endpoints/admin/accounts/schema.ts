import { type Static, Type } from 'typebox';
import { isoTime, isoTimeOrNull } from '../../../../domain/dates.ts';
import { type Account, accountStatus } from '../../../../domain/principal.ts';
import { CLOSED, limitFields, toUsd } from '../schema.ts';

export const NewAccount = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 64, description: 'Of the new account' }),
    ...limitFields,
  },
  CLOSED,
);

export const AccountShape = Type.Object({
  id: Type.String(),
  object: Type.Literal('account'),
  name: Type.String(),
  status: Type.Enum(['active', 'suspended', 'deleted']),
  created_at: Type.String(),
  suspended_at: Type.Union([Type.String(), Type.Null()]),
  deleted_at: Type.Union([Type.String(), Type.Null()]),
  erased_at: Type.Union([Type.String(), Type.Null()], { description: 'When the last of its content was erased' }),
  rpm: Type.Union([Type.Integer(), Type.Null()]),
  tpm: Type.Union([Type.Integer(), Type.Null()]),
  monthly_budget_usd: Type.Union([Type.Number(), Type.Null()]),
});

export const accountToWire = (account: Account): Static<typeof AccountShape> => ({
  id: account.id,
  object: 'account',
  name: account.name,
  status: accountStatus(account),
  created_at: isoTime(account.createdAt),
  suspended_at: isoTimeOrNull(account.suspendedAt),
  deleted_at: isoTimeOrNull(account.deletedAt),
  erased_at: isoTimeOrNull(account.erasedAt),
  rpm: account.rpm,
  tpm: account.tpm,
  monthly_budget_usd: toUsd(account.monthlyBudgetNanoUsd),
});
