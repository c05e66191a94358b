import { type Static, Type } from 'typebox';
import { isoTime, isoTimeOrNull, parseTimestamp } from '../../../domain/dates.ts';
import type { Account, AccountLimits, ApiKey, Changes, KeyRights } from '../../../domain/principal.ts';
import { parseScopes, SCOPES } from '../../../domain/scopes.ts';

const limit = (description: string) =>
  Type.Optional(Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], { description }));
const limits = {
  rpm: limit('Requests a minute'),
  tpm: limit('Tokens a minute'),
  monthly_budget_usd: Type.Optional(
    Type.Union([Type.Number({ minimum: 0, maximum: 9_000_000 }), Type.Null()], {
      description: 'US dollars in a calendar month, UTC',
    }),
  ),
};
const CHANGES = { description: 'What is not sent stays as it is; null takes a limit away' };
export const LimitChanges = Type.Object(limits, CHANGES);

export const NewAccount = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 64, description: 'Of the new account' }),
  ...limits,
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

const keyName = Type.String({ minLength: 1, maxLength: 100, description: 'To tell keys apart' });
const rights = {
  scopes: Type.Optional(
    Type.Array(Type.Enum([...SCOPES, 'inference']), {
      minItems: 1,
      description: 'All but `admin` by default; `inference` stands for chat, embeddings, rerank and audio',
    }),
  ),
  allowed_models: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
      maxItems: 100,
      description: 'Slugs, with `*` for any part of them; all models by default, and by an empty list',
    }),
  ),
  allowed_regions: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 32 }), {
      maxItems: 100,
      description: 'All by default, and by an empty list',
    }),
  ),
  ...limits,
  concurrency: limit('Requests at a time'),
  expires_at: Type.Optional(Type.Union([Type.String(), Type.Null()], { description: 'ISO 8601; never by default' })),
};
export const KeyChanges = Type.Object({ name: Type.Optional(keyName), ...rights }, CHANGES);

export const NewKey = Type.Object({
  account: Type.String({ minLength: 1, description: 'Id or name of the account' }),
  name: keyName,
  ...rights,
});

export const KeyShape = Type.Object({
  id: Type.String(),
  object: Type.Literal('key'),
  account_id: Type.String(),
  name: Type.String(),
  prefix: Type.String(),
  scopes: Type.Array(Type.String()),
  allowed_models: Type.Array(Type.String()),
  allowed_regions: Type.Array(Type.String()),
  rpm: Type.Union([Type.Integer(), Type.Null()]),
  tpm: Type.Union([Type.Integer(), Type.Null()]),
  concurrency: Type.Union([Type.Integer(), Type.Null()]),
  monthly_budget_usd: Type.Union([Type.Number(), Type.Null()]),
  created_at: Type.String(),
  expires_at: Type.Union([Type.String(), Type.Null()]),
  revoked_at: Type.Union([Type.String(), Type.Null()]),
  last_used_at: Type.Union([Type.String(), Type.Null()]),
});

export const IssuedKeyShape = Type.Object({
  ...KeyShape.properties,
  secret: Type.String({ description: 'Shown this once' }),
});

const NANO = 1_000_000_000;
const toNanoUsd = <T extends null | undefined>(usd: number | T): number | T =>
  typeof usd === 'number' ? Math.round(usd * NANO) : usd;
const toUsd = (nano: number | null): number | null => (nano === null ? null : nano / NANO);

export const limitsFromWire = (body: Static<typeof LimitChanges>): Changes<AccountLimits> => ({
  rpm: body.rpm,
  tpm: body.tpm,
  monthlyBudgetNanoUsd: toNanoUsd(body.monthly_budget_usd),
});

export const rightsFromWire = (body: Static<typeof KeyChanges>): Changes<KeyRights> => ({
  ...limitsFromWire(body),
  name: body.name,
  scopes: body.scopes && parseScopes(body.scopes),
  allowedModels: body.allowed_models,
  allowedRegions: body.allowed_regions,
  concurrency: body.concurrency,
  expiresAt: typeof body.expires_at === 'string' ? parseTimestamp(body.expires_at, ['expiresAt']) : body.expires_at,
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

export const keyToWire = (key: ApiKey): Static<typeof KeyShape> => ({
  id: key.id,
  object: 'key',
  account_id: key.accountId,
  name: key.name,
  prefix: key.prefix,
  scopes: [...key.scopes],
  allowed_models: [...key.allowedModels],
  allowed_regions: [...key.allowedRegions],
  rpm: key.rpm,
  tpm: key.tpm,
  concurrency: key.concurrency,
  monthly_budget_usd: toUsd(key.monthlyBudgetNanoUsd),
  created_at: isoTime(key.createdAt),
  expires_at: isoTimeOrNull(key.expiresAt),
  revoked_at: isoTimeOrNull(key.revokedAt),
  last_used_at: isoTimeOrNull(key.lastUsedAt),
});
