import { type Static, Type } from 'typebox';
import type { ApiKey, Changes, KeyRights } from '../../../../domain/principal.ts';
import { parseScopes, SCOPES } from '../../../../domain/scopes.ts';
import { isoTime, isoTimeOrNull, parseTimestamp } from '../../../../domain/time/dates.ts';
import { OPTIONAL_BODY } from '../../../openapi.ts';
import { CHANGES, CLOSED, limitFields, limitsFromWire, toUsd } from '../schema.ts';

/** The rules that the service checks, in the words of a schema. */
const plainText = {
  pattern:
    '^[^\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u115f\\u1160\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb]+$',
};
const octet = '(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])';
const addressRange = {
  anyOf: [{ format: 'ipv4' }, { format: 'ipv6' }, { pattern: `^${octet}(\\.${octet}){3}/([0-9]|[12][0-9]|3[0-2])$` }],
};

const keyName = Type.String({
  minLength: 1,
  maxLength: 100,
  description: 'For people, to recognise the key',
  documented: plainText,
});
const rights = {
  scopes: Type.Optional(
    Type.Array(Type.Enum([...SCOPES, 'inference']), {
      minItems: 1,
      description: 'All but `keys` and `admin` by default; `inference` means chat, embeddings, rerank and audio',
    }),
  ),
  allowed_models: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 200, documented: plainText }), {
      maxItems: 100,
      description: 'Slugs, with `*` for any part of them; all models by default, and by an empty list',
    }),
  ),
  allowed_regions: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 32, documented: plainText }), {
      maxItems: 100,
      description: 'All by default, and by an empty list',
    }),
  ),
  allowed_addresses: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 50, documented: addressRange }), {
      maxItems: 100,
      description:
        'IP addresses and ranges such as `10.0.0.0/8` that the key may be used from; any by default, and by an empty list',
    }),
  ),
  ...limitFields,
  expires_at: Type.Optional(
    Type.Union([Type.String({ documented: { format: 'date-time' } }), Type.Null()], {
      description: 'ISO 8601, in the future; never by default',
    }),
  ),
};
export const KeyChanges = Type.Object({ name: Type.Optional(keyName), ...rights }, CHANGES);

export const NewKey = Type.Object(
  {
    account: Type.String({ minLength: 1, description: 'Id or name of the account' }),
    name: keyName,
    ...rights,
  },
  CLOSED,
);

export const Rotation = Type.Object(
  {
    grace_seconds: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 86_400, default: 86_400, description: 'How long the old key goes on' }),
    ),
  },
  { ...CLOSED, documented: { [OPTIONAL_BODY]: true } },
);

export const KeyShape = Type.Object({
  id: Type.String(),
  object: Type.Literal('key'),
  account_id: Type.String(),
  name: Type.String(),
  prefix: Type.String(),
  scopes: Type.Array(Type.String()),
  allowed_models: Type.Array(Type.String()),
  allowed_regions: Type.Array(Type.String()),
  allowed_addresses: Type.Array(Type.String()),
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
  secret: Type.Union([Type.String(), Type.Null()], { description: 'Shown only once; null in replays' }),
});

export const rightsFromWire = (body: Static<typeof KeyChanges>): Changes<KeyRights> => ({
  ...limitsFromWire(body),
  name: body.name,
  scopes: body.scopes && parseScopes(body.scopes),
  allowedModels: body.allowed_models,
  allowedRegions: body.allowed_regions,
  allowedAddresses: body.allowed_addresses,
  expiresAt: typeof body.expires_at === 'string' ? parseTimestamp(body.expires_at, ['expiresAt']) : body.expires_at,
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
  allowed_addresses: [...key.allowedAddresses],
  rpm: key.rpm,
  tpm: key.tpm,
  concurrency: key.concurrency,
  monthly_budget_usd: toUsd(key.monthlyBudgetNanoUsd),
  created_at: isoTime(key.createdAt),
  expires_at: isoTimeOrNull(key.expiresAt),
  revoked_at: isoTimeOrNull(key.revokedAt),
  last_used_at: isoTimeOrNull(key.lastUsedAt),
});
