import { TRUNCATE_INPUTS } from '@baobab/core/domain/model.ts';
import {
  ACCOUNT_FIELDS,
  ACCOUNT_SETTINGS,
  type Account,
  type AccountSettings,
  accountStatus,
  type Changes,
  DIALECTS,
} from '@baobab/core/domain/principal.ts';
import { type LimitRules, NO_LIMITS } from '@baobab/core/domain/rate-limits.ts';
import { type Static, Type } from 'typebox';
import { listOf, shortText } from '../../../body/bounded.ts';
import { CHANGES, CLOSED } from '../../../body/changes.ts';
import { dialect, fieldsFromWire, fieldsToWire, limit, limitFields, truncateInputs } from '../../keys/fields.ts';
import { AppliedLimitsShape, appliedLimitsToWire } from '../../keys/limits.ts';

const MAX_RETENTION_DAYS = 36_500;

const Alias = Type.Object(
  {
    name: shortText({
      documented: { pattern: '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$' },
      description: 'What clients send, for example gpt-4o-mini',
    }),
    model: shortText({
      documented: {
        pattern:
          '^[a-z0-9][a-z0-9._-]{0,90}/[a-z0-9][a-z0-9._-]{0,90}(@[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8]))?$',
      },
      description: 'Slug with an optional pin',
    }),
  },
  CLOSED,
);

const settingFields = {
  ...limitFields,
  weight: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_000,
      description: 'Its share of the work while others wait, compared with theirs; 1 by default',
    }),
  ),
  zero_retention: Type.Optional(
    Type.Boolean({ description: 'Keep nothing of prompts and answers, not even to replay idempotent requests' }),
  ),
  store_prompts: Type.Optional(
    Type.Boolean({
      description:
        'Keep the text of prompts and answers with the requests; not together with `zero_retention`. When it ends, what was kept is erased',
    }),
  ),
  file_retention_days: limit(
    'Files stored from now on are deleted after this many days; null: the default',
    MAX_RETENTION_DAYS,
  ),
  dialect: dialect('the specification'),
  truncate_inputs: truncateInputs('as the catalog says of the model'),
  aliases: Type.Optional(
    listOf(Alias, {
      description: 'Other names of models for the keys of this account; replaces the earlier list',
      maxItems: 100,
    }),
  ),
};

export const AccountChanges = Type.Object(settingFields, CHANGES);

export const NewAccount = Type.Object(
  {
    name: Type.String({
      minLength: 1,
      maxLength: 64,
      description: 'Of the new account',
      documented: { pattern: '^[A-Za-z0-9][A-Za-z0-9 ._-]*$' },
    }),
    ...settingFields,
  },
  CLOSED,
);

export const settingsFromWire = (body: Static<typeof AccountChanges>): Changes<AccountSettings> =>
  fieldsFromWire<AccountSettings>(ACCOUNT_SETTINGS, body);

export const AccountShape = Type.Object({
  id: Type.String(),
  object: Type.Literal('account'),
  name: Type.String(),
  status: Type.Enum(['active', 'suspended', 'deleted']),
  created_at: Type.String(),
  suspended_at: Type.Union([Type.String(), Type.Null()]),
  deleted_at: Type.Union([Type.String(), Type.Null()]),
  erased_at: Type.Union([Type.String(), Type.Null()], { description: 'When the last of its content was erased' }),
  weight: Type.Integer(),
  rpm: Type.Union([Type.Integer(), Type.Null()]),
  tpm: Type.Union([Type.Integer(), Type.Null()]),
  concurrency: Type.Union([Type.Integer(), Type.Null()]),
  monthly_budget_usd: Type.Union([Type.Number(), Type.Null()]),
  limits: AppliedLimitsShape,
  zero_retention: Type.Boolean(),
  store_prompts: Type.Boolean(),
  file_retention_days: Type.Union([Type.Integer(), Type.Null()]),
  aliases: Type.Array(Alias),
  dialect: Type.Union([Type.Enum([...DIALECTS]), Type.Null()]),
  truncate_inputs: Type.Union([Type.Enum([...TRUNCATE_INPUTS]), Type.Null()]),
});

export const accountToWire = (account: Account, rules: LimitRules): Static<typeof AccountShape> => ({
  ...fieldsToWire<Omit<Static<typeof AccountShape>, 'object' | 'status' | 'limits'>>(ACCOUNT_FIELDS, account),
  limits: appliedLimitsToWire({ key: NO_LIMITS, account }, rules),
  object: 'account',
  status: accountStatus(account),
});
