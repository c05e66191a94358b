import type { ModelAlias } from '@baobab/core/domain/model.ts';
import { usdText } from '@baobab/core/domain/money.ts';
import {
  type Account,
  type AccountLimits,
  type AccountSettings,
  type ApiKey,
  type Changes,
  DIALECTS,
  type Dialect,
  KEY_PRIORITIES,
  type KeyPriority,
  type KeyRights,
} from '@baobab/core/domain/principal.ts';
import { parseScopes, SCOPES, type Scope } from '@baobab/core/domain/scopes.ts';
import { parseTimestamp } from '@baobab/core/domain/time/dates.ts';
import { type HelpLine, OptionError } from './command.ts';
import { dollarsOption, integerOption } from './options.ts';

export const LIMIT_HELP: readonly HelpLine[] = [
  ['--rpm N', 'requests a minute, of each model'],
  ['--tpm N', 'tokens a minute, of each model'],
  ['--concurrency N', 'requests at a time'],
  ['--monthly-budget USD', 'spend in a calendar month (UTC), such as 25 or 12.50'],
];

type Read<T> = (name: string, text: string | undefined) => T;

/** Removes a limit. */
const NONE = 'none';

const orNull =
  <T>(read: Read<T>): Read<T | null> =>
  (name, given) =>
    given === NONE ? null : read(name, given);

const limit = orNull(integerOption);
const dollars = orNull(dollarsOption);

/** Comma-separated names. An empty text is refused, because as a limit it would allow everything. */
function namesOption(name: string, given: string | undefined): string[] | undefined {
  const names = given
    ?.split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');
  if (names?.length === 0) throw new OptionError(`--${name} must name at least one`);
  return names;
}

/** An empty list allows all. */
const namesOrAll = (name: string, given: string | undefined) => (given === NONE ? [] : namesOption(name, given));

/** `keys list` shows `all` for a key with every scope, so it is accepted here too. */
function scopesOption(name: string, given: string | undefined): Scope[] | undefined {
  if (given === 'all') return [...SCOPES];
  const names = namesOption(name, given);
  try {
    return names && parseScopes(names);
  } catch (error) {
    throw new OptionError((error as Error).message);
  }
}

const timeOption = orNull((_name, given) => (given === undefined ? undefined : parseTimestamp(given, ['expiresAt'])));

function yesOrNoOption(name: string, given: string | undefined): boolean | undefined {
  if (given === undefined) return undefined;
  if (given !== 'yes' && given !== 'no') throw new OptionError(`--${name} must be yes or no`);
  return given === 'yes';
}

/** `gpt-4o-mini=acme/writer,whisper-1=openai/whisper-small` */
function aliasesOption(name: string, given: string | undefined): ModelAlias[] | undefined {
  return namesOrAll(name, given)?.map((pair) => {
    const [, alias, model] = /^([^=]+)=(.+)$/.exec(pair) ?? [];
    if (alias === undefined || model === undefined) throw new OptionError(`--${name} must be like gpt-4o=acme/writer`);
    return { name: alias.trim(), model: model.trim() };
  });
}

function priorityOption(name: string, given: string | undefined): KeyPriority | undefined {
  const priority = KEY_PRIORITIES.find((each) => each === given);
  if (given !== undefined && priority === undefined) throw new OptionError(`--${name} must be interactive or low`);
  return priority;
}

const dialectOption = orNull((name, given): Dialect | undefined => {
  const dialect = DIALECTS.find((each) => each === given);
  if (given !== undefined && dialect === undefined) {
    throw new OptionError(`--${name} must be openai, specification or none`);
  }
  return dialect;
});

/** For each option the field that it sets, and how its text is read. */
const LIMITS = {
  rpm: ['rpm', limit],
  tpm: ['tpm', limit],
  concurrency: ['concurrency', limit],
  'monthly-budget': ['monthlyBudgetNanoUsd', dollars],
} as const;
const ACCOUNT = {
  ...LIMITS,
  weight: ['weight', integerOption],
  'zero-retention': ['zeroRetention', yesOrNoOption],
  'store-prompts': ['storePrompts', yesOrNoOption],
  'file-retention-days': ['fileRetentionDays', limit],
  aliases: ['aliases', aliasesOption],
  dialect: ['dialect', dialectOption],
} as const satisfies Table<AccountSettings>;
const KEY = {
  ...LIMITS,
  scopes: ['scopes', scopesOption],
  models: ['allowedModels', namesOrAll],
  regions: ['allowedRegions', namesOrAll],
  addresses: ['allowedAddresses', namesOrAll],
  priority: ['priority', priorityOption],
  dialect: ['dialect', dialectOption],
  expires: ['expiresAt', timeOption],
} as const satisfies Table<KeyRights>;

type Table<Fields> = Readonly<Record<string, readonly [keyof Fields, Read<unknown>]>>;
type Values<T> = { [Option in keyof T]?: string | undefined };

const optionsOf = <T extends object>(table: T) =>
  Object.fromEntries(Object.keys(table).map((name) => [name, { type: 'string' }])) as Record<
    keyof T,
    { type: 'string' }
  >;

const changesFrom = <Fields>(table: Table<Fields>, values: Readonly<Record<string, string | undefined>>) =>
  Object.fromEntries(
    Object.entries(table).map(([name, [field, read]]) => [field, read(name, values[name])]),
  ) as Changes<Fields>;

export const ACCOUNT_OPTIONS = optionsOf(ACCOUNT);
export const KEY_OPTIONS = optionsOf(KEY);

export const accountSettingsFrom = (values: Values<typeof ACCOUNT>): Changes<AccountSettings> =>
  changesFrom<AccountSettings>(ACCOUNT, values);

export const rightsFrom = (values: Values<typeof KEY>): Changes<Omit<KeyRights, 'name'>> =>
  changesFrom<KeyRights>(KEY, values);

/** `60 rpm, 1000 tpm, 5 USD/month`; `-` where nothing is set. */
export function limitsText(
  limits: AccountLimits &
    Partial<Pick<ApiKey, 'allowedRegions' | 'allowedAddresses' | 'priority' | 'dialect'> & Pick<Account, 'weight'>>,
): string {
  const { rpm, tpm, concurrency, monthlyBudgetNanoUsd, allowedRegions = [], allowedAddresses = [] } = limits;
  const { weight = 1, priority = 'interactive', dialect = null } = limits;
  const parts = [
    rpm === null ? '' : `${rpm} rpm`,
    tpm === null ? '' : `${tpm} tpm`,
    concurrency === null ? '' : `${concurrency} at a time`,
    monthlyBudgetNanoUsd === null ? '' : `${usdText(monthlyBudgetNanoUsd)} USD/month`,
    weight === 1 ? '' : `weight ${weight}`,
    priority === 'interactive' ? '' : `${priority} priority`,
    dialect === null ? '' : `dialect ${dialect}`,
    allowedRegions.length === 0 ? '' : `in ${allowedRegions.join(',')}`,
    allowedAddresses.length === 0 ? '' : `from ${allowedAddresses.join(',')}`,
  ];
  return parts.filter((part) => part !== '').join(', ') || '-';
}
