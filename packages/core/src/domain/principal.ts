import { errors } from '../errors/errors.ts';
import type { ModelAlias, ModelEntry, TruncateInputs } from './model.ts';
import { missingScope, type Operation } from './operations.ts';
import { DEFAULT_SCOPES, type Scope } from './scopes.ts';

export interface Account {
  id: string;
  name: string;
  /** Milliseconds since 1970, like all times below. */
  createdAt: number;
  /** Null: not suspended. */
  suspendedAt: number | null;
  /** Null: not deleted. A deleted account stays for the ledger; its content is erased. */
  deletedAt: number | null;
  erasedAt: number | null;
  /** Under load, accounts share the work by their weights. */
  weight: number;
  /** Totals over all keys and regions. Null: not limited. */
  rpm: number | null;
  tpm: number | null;
  concurrency: number | null;
  monthlyBudgetNanoUsd: number | null;
  /** Answers of idempotent requests are not stored. */
  zeroRetention: boolean;
  /** Keeps the text of prompts and answers with its requests. Never together with zero retention. */
  storePrompts: boolean;
  /** Files are deleted after this time. Null: the default applies. */
  fileRetentionDays: number | null;
  /** For its keys; they take precedence over the aliases of the deployment. */
  aliases: readonly ModelAlias[];
  /** Null: the specification. */
  dialect: Dialect | null;
  /** Null: as the model says. */
  truncateInputs: TruncateInputs | null;
}

/** How the API answers where OpenAI's differs from the specification. */
export const DIALECTS = ['specification', 'openai'] as const;
export type Dialect = (typeof DIALECTS)[number];

/** Requests of a `low` key give way to others under load. */
export const KEY_PRIORITIES = ['interactive', 'low'] as const;
export type KeyPriority = (typeof KEY_PRIORITIES)[number];

export interface ApiKey {
  id: string;
  /** The first key of a chain of rotations, or this one. Limits and budgets count under it, so a rotation does not reset them. */
  originalId: string;
  accountId: string;
  name: string;
  /** First characters, for display. */
  prefix: string;
  scopes: readonly Scope[];
  /** Patterns such as `baobab/*`. Empty: all models. */
  allowedModels: readonly string[];
  /** Empty: all regions. */
  allowedRegions: readonly string[];
  /** IP addresses and ranges that the key may be used from. Empty: any. */
  allowedAddresses: readonly string[];
  rpm: number | null;
  tpm: number | null;
  concurrency: number | null;
  monthlyBudgetNanoUsd: number | null;
  priority: KeyPriority;
  /** Null: that of the account. */
  dialect: Dialect | null;
  /** Null: that of the account. */
  truncateInputs: TruncateInputs | null;
  createdAt: number;
  expiresAt: number | null;
  revokedAt: number | null;
  lastUsedAt: number | null;
}

/** How the values of a field are stored, sent and shown. A list is an array, a time milliseconds since 1970. */
export type FieldKind = 'text' | 'number' | 'usd' | 'time' | 'flag' | 'list';
export type FieldTable = Readonly<Record<string, { readonly kind: FieldKind }>>;
type FieldsOf<T> = { readonly [Name in keyof T]: { readonly kind: FieldKind } };
/** Fields that operators may change, with their values in a new key or account. */
type SettingsOf<T> = { readonly [Name in keyof T]: { readonly kind: FieldKind; readonly initial: T[Name] } };

const TEXT = { kind: 'text' } as const;
const TIME = { kind: 'time' } as const;
const NO_LIMIT = { kind: 'number', initial: null } as const;
const LIMITS = {
  rpm: NO_LIMIT,
  tpm: NO_LIMIT,
  concurrency: NO_LIMIT,
  monthlyBudgetNanoUsd: { kind: 'usd', initial: null },
} as const;
const ANY = { kind: 'list', initial: [] } as const;

/** The settings of an account. Its row, its entries in the audit log and its JSON have them in this order. */
export const ACCOUNT_SETTINGS = {
  weight: { kind: 'number', initial: 1 },
  ...LIMITS,
  zeroRetention: { kind: 'flag', initial: false },
  storePrompts: { kind: 'flag', initial: false },
  fileRetentionDays: NO_LIMIT,
  aliases: ANY,
  dialect: { kind: 'text', initial: null },
  truncateInputs: { kind: 'text', initial: null },
} as const satisfies Partial<SettingsOf<Account>>;

export const ACCOUNT_FIELDS: FieldsOf<Account> = {
  id: TEXT,
  name: TEXT,
  createdAt: TIME,
  ...ACCOUNT_SETTINGS,
  suspendedAt: TIME,
  deletedAt: TIME,
  erasedAt: TIME,
};

/** The rights and limits of a key, likewise. */
export const KEY_RIGHTS = {
  scopes: { kind: 'list', initial: DEFAULT_SCOPES },
  allowedModels: ANY,
  allowedRegions: ANY,
  allowedAddresses: ANY,
  ...LIMITS,
  priority: { kind: 'text', initial: 'interactive' },
  dialect: { kind: 'text', initial: null },
  truncateInputs: { kind: 'text', initial: null },
  expiresAt: { kind: 'time', initial: null },
} as const satisfies Partial<SettingsOf<ApiKey>>;

export const KEY_FIELDS: FieldsOf<ApiKey> = {
  id: TEXT,
  originalId: TEXT,
  accountId: TEXT,
  name: TEXT,
  prefix: TEXT,
  ...KEY_RIGHTS,
  createdAt: TIME,
  revokedAt: TIME,
  lastUsedAt: TIME,
};

/** A new key or account, with the values that were chosen. */
export const withInitial = <T>(settings: SettingsOf<T>, chosen: Changes<T>): T =>
  Object.fromEntries(
    Object.entries<{ initial: unknown }>(settings).map(([name, { initial }]) => [
      name,
      chosen[name as keyof T] ?? initial,
    ]),
  ) as T;

export type AccountLimits = Pick<Account, keyof typeof LIMITS>;

/** What is kept of an account's requests, and for how long. */
export type AccountRetention = Pick<Account, 'zeroRetention' | 'storePrompts' | 'fileRetentionDays'>;

/** What operators may change of an account. */
export type AccountSettings = Pick<Account, keyof typeof ACCOUNT_SETTINGS>;

export const accountStatus = ({ deletedAt, suspendedAt }: Account): 'active' | 'suspended' | 'deleted' =>
  deletedAt !== null ? 'deleted' : suspendedAt !== null ? 'suspended' : 'active';

/** What changes when an account is suspended, resumed or deleted. */
export type AccountState = Pick<Account, 'name' | 'suspendedAt' | 'deletedAt' | 'erasedAt'>;

/** What operators may change of a key. */
export type KeyRights = Pick<ApiKey, 'name' | keyof typeof KEY_RIGHTS>;

/** The caller of a request, as authentication found it. */
export interface Principal {
  account: Account;
  key: ApiKey;
}

export const dialectOf = ({ account, key }: Principal): Dialect => key.dialect ?? account.dialect ?? 'specification';

export const truncateInputsOf = (
  { account, key }: Principal,
  { truncateInputs = 'none' }: Pick<ModelEntry, 'truncateInputs'>,
): TruncateInputs => key.truncateInputs ?? account.truncateInputs ?? truncateInputs;

/** Whether a budget limits what the caller may spend. */
export const hasBudget = ({ account, key }: Principal): boolean =>
  key.monthlyBudgetNanoUsd !== null || account.monthlyBudgetNanoUsd !== null;

/** Throws the error that a request of this caller gets when its key or account may not be used now. */
export function checkUsable({ account, key }: Principal, now: number): void {
  if (key.revokedAt !== null || account.deletedAt !== null) throw errors.keyRevoked();
  if (key.expiresAt !== null && key.expiresAt <= now) throw errors.expiredApiKey(key.expiresAt);
  if (account.suspendedAt !== null) throw errors.accountSuspended();
}

/** Throws 403 when the key of the caller lacks the scope of the operation. */
export function requireRight({ key }: Principal, operation: Operation): void {
  const missing = missingScope(key, operation);
  if (missing !== undefined) throw errors.insufficientScope(missing);
}

export type HiddenText = 'not_kept' | 'other_account' | 'missing_scope';

/** Why this caller does not get the stored prompts and answers of an account. Null: it does. */
export function whyTextIsHidden({ account, key }: Principal, accountId: string): HiddenText | null {
  if (account.id !== accountId) return 'other_account';
  // What was kept before is about to be removed.
  if (!account.storePrompts) return 'not_kept';
  return key.scopes.includes('prompts') ? null : 'missing_scope';
}

/** Who reads a report. `accountId`: the account that it is about; undefined: all accounts. */
export interface Reader {
  accountId?: string | undefined;
  forOperators?: boolean | undefined;
}

/** Keys of operators work for other accounts too, which see their ids only. */
export const seesKeyName = (reader: Reader, key: Pick<ApiKey, 'accountId'>): boolean =>
  reader.forOperators === true || reader.accountId === key.accountId;

/** New values of some fields. Undefined ones stay as they are. */
export type Changes<T> = { [Field in keyof T]?: T[Field] | undefined };

export const definedFields = <T extends object>(changes: T): { [Field in keyof T]?: Exclude<T[Field], undefined> } =>
  Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined)) as {
    [Field in keyof T]?: Exclude<T[Field], undefined>;
  };
