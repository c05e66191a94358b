import { MODALITIES, type ModelAlias, TRUNCATE_INPUTS, type TruncateInputs } from '@baobab/core/domain/model.ts';
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
import {
  type AppliedLimit,
  appliedBudget,
  appliedLimits,
  type LimitRules,
  NO_LIMITS,
} from '@baobab/core/domain/rate-limits.ts';
import { parseScopes, SCOPE_GROUPS, SCOPES, type Scope } from '@baobab/core/domain/scopes.ts';
import { isoTime, parseTimestamp } from '@baobab/core/domain/time/dates.ts';
import { nearest } from '@baobab/core/runtime/nearest.ts';
import { type HelpLine, UsageError } from './command.ts';
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
const DEFAULT = 'default';

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
  if (names?.length === 0) throw new UsageError(`--${name} must name at least one`);
  return names;
}

/** An empty list allows all. */
const namesOrAll = (name: string, given: string | undefined) => (given === NONE ? [] : namesOption(name, given));

function scopesOption(name: string, given: string | undefined): Scope[] | undefined {
  const known: readonly string[] = [...SCOPES, ...SCOPE_GROUPS];
  const names = namesOption(name, given);
  const unknown = names?.find((each) => !known.includes(each));
  if (unknown === undefined) return names && parseScopes(names);
  const meant = nearest(unknown, known);
  throw new UsageError(
    `there is no scope '${unknown}'; ${meant === undefined ? `--${name} takes ${known.join(', ')}` : `did you mean '${meant}'?`}`,
  );
}

const timeOption = orNull((_name, given) => (given === undefined ? undefined : parseTimestamp(given, ['expiresAt'])));

function yesOrNoOption(name: string, given: string | undefined): boolean | undefined {
  if (given === undefined) return undefined;
  if (given !== 'yes' && given !== 'no') throw new UsageError(`--${name} must be yes or no`);
  return given === 'yes';
}

/** `gpt-4o-mini=acme/writer,whisper-1=openai/whisper-small` */
function aliasesOption(name: string, given: string | undefined): ModelAlias[] | undefined {
  return namesOrAll(name, given)?.map((pair) => {
    const [, alias, model] = /^([^=]+)=(.+)$/.exec(pair) ?? [];
    if (alias === undefined || model === undefined) throw new UsageError(`--${name} must be like gpt-4o=acme/writer`);
    return { name: alias.trim(), model: model.trim() };
  });
}

function priorityOption(name: string, given: string | undefined): KeyPriority | undefined {
  const priority = KEY_PRIORITIES.find((each) => each === given);
  if (given !== undefined && priority === undefined) throw new UsageError(`--${name} must be interactive or low`);
  return priority;
}

const dialectOption = orNull((name, given): Dialect | undefined => {
  const dialect = DIALECTS.find((each) => each === given);
  if (given !== undefined && dialect === undefined) {
    throw new UsageError(`--${name} must be openai, specification or none`);
  }
  return dialect;
});

/** `none` refuses, and `default` leaves it to the account or the model. */
function truncateOption(name: string, given: string | undefined): TruncateInputs | null | undefined {
  if (given === undefined) return undefined;
  const side = TRUNCATE_INPUTS.find((each) => each === given);
  if (side === undefined && given !== DEFAULT) throw new UsageError(`--${name} must be start, end, none or default`);
  return side ?? null;
}

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
  'truncate-inputs': ['truncateInputs', truncateOption],
} as const satisfies Table<AccountSettings>;
const KEY = {
  ...LIMITS,
  scopes: ['scopes', scopesOption],
  models: ['allowedModels', namesOrAll],
  regions: ['allowedRegions', namesOrAll],
  addresses: ['allowedAddresses', namesOrAll],
  priority: ['priority', priorityOption],
  dialect: ['dialect', dialectOption],
  'truncate-inputs': ['truncateInputs', truncateOption],
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

function valueText(value: unknown): string {
  if (value === null) return NONE;
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (!Array.isArray(value)) return String(value);
  const texts = (value as (string | ModelAlias)[]).map((each) =>
    typeof each === 'string' ? each : `${each.name}=${each.model}`,
  );
  return texts.join(',') || NONE;
}

/** The options that were given, as the record has them now: tables do not show all. */
function changesText<Fields extends object>(table: Table<Fields>, changes: Changes<Fields>, record: Fields): string {
  const texts = Object.entries(table).flatMap(([option, [field]]) => {
    if (changes[field] === undefined) return [];
    const value = record[field];
    if (typeof value === 'number' && field === 'monthlyBudgetNanoUsd') return [`${option} ${usdText(value)}`];
    if (typeof value === 'number' && field === 'expiresAt') return [`${option} ${isoTime(value)}`];
    return [`${option} ${valueText(value)}`];
  });
  return texts.length === 0 ? '' : `changed: ${texts.join('; ')}`;
}

export const accountChangesText = (changes: Changes<AccountSettings>, account: Account): string =>
  changesText<AccountSettings>(ACCOUNT, changes, account);

export const keyChangesText = (changes: Changes<KeyRights>, key: ApiKey): string =>
  changesText<KeyRights>({ name: ['name', (_name, given) => given], ...KEY }, changes, key);

export const accountSettingsFrom = (values: Values<typeof ACCOUNT>): Changes<AccountSettings> =>
  changesFrom<AccountSettings>(ACCOUNT, values);

export const rightsFrom = (values: Values<typeof KEY>): Changes<Omit<KeyRights, 'name'>> =>
  changesFrom<KeyRights>(KEY, values);

const CHAT = 'chat';

/** `60 rpm` of a key, `60 rpm (account)`; nothing where there is no limit. */
function limitText({ value, from }: AppliedLimit, unit: string, owner: 'key' | 'account'): string[] {
  if (value === null) return [];
  return [`${unit === 'USD/month' ? usdText(value) : value} ${unit}${from === owner ? '' : ` (${from})`}`];
}

/** Requests and tokens a minute. The defaults depend on the kind of model: `defaultsText` has them. */
function ratesText({ rpm, tpm }: Record<'rpm' | 'tpm', AppliedLimit>, owner: 'key' | 'account'): string[] {
  const isDefault = ({ from }: AppliedLimit) => from === 'default';
  if (isDefault(rpm) && isDefault(tpm)) return ['default'];
  const text = (limit: AppliedLimit, unit: string) =>
    isDefault(limit) ? [`default ${unit}`] : limitText(limit, unit, owner);
  return [...text(rpm, 'rpm'), ...text(tpm, 'tpm')];
}

const answersText = ({ dialect, truncateInputs }: Pick<Account, 'dialect' | 'truncateInputs'>) => [
  ...(dialect === null ? [] : [`dialect ${dialect}`]),
  ...(truncateInputs === null ? [] : [`truncates ${truncateInputs}`]),
];

/** The limits that hold for a key, such as `60 rpm, default tpm, 25 USD/month (account)`. */
export function keyLimitsText(key: ApiKey, account: AccountLimits, { defaults }: LimitRules): string {
  const limited = { key, account };
  const { concurrency, ...rates } = appliedLimits(limited, CHAT, { defaults });
  return [
    ...ratesText(rates, 'key'),
    ...limitText(concurrency, 'at a time', 'key'),
    ...limitText(appliedBudget(limited), 'USD/month', 'key'),
    ...(key.priority === 'interactive' ? [] : [`${key.priority} priority`]),
    ...answersText(key),
    ...(key.allowedRegions.length === 0 ? [] : [`in ${key.allowedRegions.join(',')}`]),
    ...(key.allowedAddresses.length === 0 ? [] : [`from ${key.allowedAddresses.join(',')}`]),
  ].join(', ');
}

/** The totals of an account, and `default` where each of its keys has the limits of the deployment. */
export function accountLimitsText(
  account: AccountLimits & Pick<Account, 'weight' | 'dialect' | 'truncateInputs'>,
  { defaults }: LimitRules,
): string {
  const limited = { key: NO_LIMITS, account };
  const { concurrency, ...rates } = appliedLimits(limited, CHAT, { defaults });
  return [
    ...ratesText(rates, 'account'),
    ...limitText(concurrency, 'at a time', 'account'),
    ...limitText(appliedBudget(limited), 'USD/month', 'account'),
    ...(account.weight === 1 ? [] : [`weight ${account.weight}`]),
    ...answersText(account),
  ].join(', ');
}

/** What `default` means, and which models have limits of their own. */
export function defaultsText({ defaults, models }: LimitRules): string {
  const rateText = ({ rpm, tpm }: { rpm?: number | undefined; tpm?: number | undefined }) =>
    [rpm === undefined ? [] : `${rpm} rpm`, tpm === undefined ? [] : `${tpm} tpm`].flat().join(' and ');
  const kinds = Object.entries(Object.groupBy(MODALITIES, (each) => rateText(defaults[each])));
  const texts = [
    ...kinds.map(([rate, modalities = []]) => `${rate} of each ${modalities.join(' or ')} model`),
    ...models.map(({ slug, limits = {} }) => `${rateText(limits)} of ${slug}`),
  ];
  return `default: ${texts.join('; ')}. Requests (rpm) and tokens (tpm) a minute, for each key`;
}
