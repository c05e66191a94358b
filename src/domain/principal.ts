import type { Scope } from './scopes.ts';

export interface Account {
  id: string;
  name: string;
  /** Milliseconds since 1970, as every time below. */
  createdAt: number;
  /** Overrides of the defaults; null: the default holds. */
  rpm: number | null;
  tpm: number | null;
  monthlyBudgetNanoUsd: number | null;
}

export interface ApiKey {
  id: string;
  accountId: string;
  name: string;
  /** First characters, for display. */
  prefix: string;
  scopes: readonly Scope[];
  /** Patterns such as `baobab/*`; empty: every model. */
  allowedModels: readonly string[];
  /** Empty: every region. */
  allowedRegions: readonly string[];
  rpm: number | null;
  tpm: number | null;
  concurrency: number | null;
  monthlyBudgetNanoUsd: number | null;
  createdAt: number;
  expiresAt: number | null;
  revokedAt: number | null;
  lastUsedAt: number | null;
}

/** What operators may change of an account. */
export type AccountLimits = Pick<Account, 'rpm' | 'tpm' | 'monthlyBudgetNanoUsd'>;

/** What operators may change of a key. */
export type KeyRights = Pick<
  ApiKey,
  | 'name'
  | 'scopes'
  | 'allowedModels'
  | 'allowedRegions'
  | 'rpm'
  | 'tpm'
  | 'concurrency'
  | 'monthlyBudgetNanoUsd'
  | 'expiresAt'
>;

/** Who is calling: resolved once by authentication, then passed on. */
export interface Principal {
  account: Account;
  key: ApiKey;
}

/** Some of the fields; undefined ones stay as they are. */
export type Changes<T> = { [Field in keyof T]?: T[Field] | undefined };

/** The fields that are to change. */
export const definedFields = <T extends object>(changes: T): { [Field in keyof T]?: Exclude<T[Field], undefined> } =>
  Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined)) as {
    [Field in keyof T]?: Exclude<T[Field], undefined>;
  };
