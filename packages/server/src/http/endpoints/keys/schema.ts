import { TRUNCATE_INPUTS } from '@baobab/core/domain/model.ts';
import {
  type AccountLimits,
  type ApiKey,
  type Changes,
  DIALECTS,
  KEY_FIELDS,
  KEY_PRIORITIES,
  KEY_RIGHTS,
  type KeyRights,
} from '@baobab/core/domain/principal.ts';
import type { LimitRules } from '@baobab/core/domain/rate-limits.ts';
import { SCOPE_GROUPS, SCOPES } from '@baobab/core/domain/scopes.ts';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import { type Static, Type } from 'typebox';
import type { IssuedKey } from '../../../services/access/keys.ts';
import { pathText, shortText } from '../../body/bounded.ts';
import { CHANGES, CLOSED } from '../../body/changes.ts';
import { MAY_BE_ABSENT } from '../../body/optional-body.ts';
import { dialect, fieldsFromWire, fieldsToWire, limitFields, truncateInputs, wireNames } from './fields.ts';
import { AppliedLimitsShape, appliedLimitsToWire } from './limits.ts';

/** Wire names of the fields that errors name. */
export const KEY_FIELD_NAMES = { ...wireNames(KEY_RIGHTS), graceMs: 'grace_seconds' };

export const KeyParams = Type.Object({ id: pathText({ description: 'Id of the key, `key_…`' }) });

/** The rules that the service checks, in the words of a schema. */
const plainText = {
  pattern:
    '^[^\\ud800-\\udfff\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u115f\\u1160\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb]+$',
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
    Type.Array(Type.Enum([...SCOPES, ...SCOPE_GROUPS]), {
      minItems: 1,
      maxItems: 100,
      description:
        'All but `prompts`, `keys` and `admin` by default; `inference` means chat, embeddings, rerank and audio, `all` every scope',
    }),
  ),
  allowed_models: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 200, documented: plainText }), {
      maxItems: 100,
      description:
        'Slugs of models that exist, or patterns with `*` for any part of a slug; all models by default, and by an empty list',
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
  priority: Type.Optional(
    Type.Enum([...KEY_PRIORITIES], {
      description:
        '`low`: its requests give way to those of other keys under load. By default a new key has that of the key that creates it, and `interactive` when an operator does',
    }),
  ),
  dialect: dialect('that of the account'),
  truncate_inputs: truncateInputs('that of the account'),
  expires_at: Type.Optional(
    Type.Union([shortText({ documented: { format: 'date-time' } }), Type.Null()], {
      description: 'ISO 8601, in the future; never by default',
    }),
  ),
};
export const KeyChanges = Type.Object({ name: Type.Optional(keyName), ...rights }, CHANGES);

export const NewKey = Type.Object({ name: keyName, ...rights }, CLOSED);

const MAX_GRACE_SECONDS = DAY_MS / 1000;

export const Rotation = Type.Object(
  {
    grace_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_GRACE_SECONDS,
        default: MAX_GRACE_SECONDS,
        description: 'How long the old key goes on',
      }),
    ),
  },
  { ...CLOSED, ...MAY_BE_ABSENT },
);

export const rotationGraceMs = ({ grace_seconds: seconds = MAX_GRACE_SECONDS }: Static<typeof Rotation>): number =>
  seconds * 1000;

const nullableInteger = Type.Union([Type.Integer(), Type.Null()]);
const nullableTime = Type.Union([Type.String(), Type.Null()]);

export const keyFields = {
  id: Type.String(),
  object: Type.Literal('key'),
  account_id: Type.String(),
  account_name: Type.Optional(Type.String({ description: 'In lists for operators' })),
  name: Type.String(),
  prefix: Type.String(),
  scopes: Type.Array(Type.String()),
  allowed_models: Type.Array(Type.String(), { description: 'Empty: all models' }),
  allowed_regions: Type.Array(Type.String(), { description: 'Empty: all regions' }),
  priority: Type.Enum([...KEY_PRIORITIES]),
  dialect: Type.Union([Type.Enum([...DIALECTS]), Type.Null()]),
  truncate_inputs: Type.Union([Type.Enum([...TRUNCATE_INPUTS]), Type.Null()]),
  created_at: Type.String(),
  expires_at: nullableTime,
};

export const KeyShape = Type.Object({
  ...keyFields,
  original_id: Type.String({
    description: 'The first key of its rotations, or itself: they share limits and spending',
  }),
  allowed_addresses: Type.Array(Type.String(), { description: 'Empty: all addresses' }),
  rpm: nullableInteger,
  tpm: nullableInteger,
  concurrency: nullableInteger,
  monthly_budget_usd: Type.Union([Type.Number(), Type.Null()]),
  limits: AppliedLimitsShape,
  revoked_at: nullableTime,
  last_used_at: nullableTime,
});

export const IssuedKeyShape = Type.Object({
  ...KeyShape.properties,
  secret: Type.Union([Type.String(), Type.Null()], { description: 'Shown only once; null in replays' }),
});

export const rightsFromWire = (body: Static<typeof KeyChanges>): Changes<KeyRights> => ({
  ...fieldsFromWire<KeyRights>(KEY_RIGHTS, body),
  name: body.name,
});

/** A key, and the account that it belongs to. */
export interface OwnedKey {
  key: ApiKey;
  account: AccountLimits;
}

export const keyToWire = ({ key, account }: OwnedKey, rules: LimitRules): Static<typeof KeyShape> => ({
  ...fieldsToWire<Omit<Static<typeof KeyShape>, 'object' | 'limits'>>(KEY_FIELDS, key),
  object: 'key',
  limits: appliedLimitsToWire({ key, account }, rules),
});

const OwnFields = Type.Object(keyFields);

/** What every object of a key has. */
export function keyFieldsToWire(key: ApiKey): Static<typeof OwnFields> {
  const wire = {
    ...fieldsToWire<Omit<Static<typeof KeyShape>, 'object' | 'limits'>>(KEY_FIELDS, key),
    object: 'key' as const,
  };
  const names = Object.keys(keyFields) as (keyof typeof keyFields)[];
  return Object.fromEntries(names.map((name) => [name, wire[name]])) as Static<typeof OwnFields>;
}

export const issuedKeyToWire = (
  { key, secret }: IssuedKey,
  account: AccountLimits,
  rules: LimitRules,
): Static<typeof IssuedKeyShape> => ({ ...keyToWire({ key, account }, rules), secret });
