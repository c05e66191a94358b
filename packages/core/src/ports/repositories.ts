import type { AuditAction, AuditEntry } from '../domain/audit/entry.ts';
import type { Account, AccountSettings, AccountState, ApiKey, Changes, KeyRights } from '../domain/principal.ts';
import type { ReportCaller } from './reports.ts';

/** A part of a list of accounts or keys, oldest first. Without a limit, all of it. */
export interface PageFilter {
  /** The last one of the page before. */
  after?: { id: string; createdAt: number } | undefined;
  limit?: number | undefined;
  newestFirst?: boolean | undefined;
  /** A part of the name or the prefix, or an id. Capital letters beyond ASCII may make a difference. */
  search?: string | undefined;
  /** Only those with a monthly budget. */
  hasBudget?: boolean | undefined;
}

/**
 * Makes the entry of a change from what is stored and what will be. Undefined: nothing is changed. It may be called again when the
 * stored values have changed meanwhile, and may throw to refuse the change.
 */
export type AuditOf<Stored> = (before: Stored, after: Stored) => AuditEntry | undefined;

/** One interface per role. Every call resolves when its effect is durable. Changes come with their entry in the audit log. */
export interface AccountRepository {
  create(account: Account, entry: AuditEntry): Promise<void>;
  get(id: string): Promise<Account | undefined>;
  /** In no order, without those that do not exist. */
  getMany(ids: readonly string[]): Promise<Account[]>;
  findByName(name: string): Promise<Account | undefined>;
  list(page?: PageFilter, caller?: ReportCaller): Promise<Account[]>;
  /** Those that were deleted and whose content has not been erased. */
  listUnerased(): Promise<Account[]>;
  /** Undefined fields stay as they are. */
  update(
    id: string,
    changes: Changes<AccountSettings & AccountState>,
    entryOf: AuditOf<Account>,
  ): Promise<Account | undefined>;
}

export interface KeyReplacement {
  /** Changes of the old key. */
  changes: Changes<KeyRights & Pick<ApiKey, 'revokedAt'>>;
  next: { key: ApiKey; hash: string };
  /** Audit entries of both keys. */
  entries: readonly AuditEntry[];
}

export interface KeyRepository {
  /** `hash` is the SHA-256 of the secret, in hex. The secret itself is never stored. */
  create(key: ApiKey, hash: string, entry: AuditEntry): Promise<void>;
  /** Only when the store has no keys at all; says whether it did. Of several servers that call it at once, one does. */
  createFirst(key: ApiKey, hash: string, entry: AuditEntry): Promise<boolean>;
  get(id: string): Promise<ApiKey | undefined>;
  /** Includes the stored hash, so that the caller can compare in constant time. */
  findByHash(hash: string): Promise<{ key: ApiKey; account: Account; hash: string } | undefined>;
  list(filter: PageFilter & { accountId?: string | undefined }, caller?: ReportCaller): Promise<ApiKey[]>;
  /** Keys of an account that can be used now, or were made since a time. */
  count(accountId: string, times: { now: number; madeSince: number }): Promise<number>;
  /** Undefined fields stay as they are. */
  update(
    id: string,
    changes: Changes<KeyRights & Pick<ApiKey, 'revokedAt'>>,
    entryOf: AuditOf<ApiKey>,
  ): Promise<ApiKey | undefined>;
  /**
   * Changes a key and creates the one that replaces it, both or neither. A key that is changed meanwhile is planned for again, as it is
   * then; what the plan throws rejects.
   */
  replace(id: string, planFor: (before: ApiKey) => KeyReplacement): Promise<ApiKey | undefined>;
  touch(uses: readonly { id: string; lastUsedAt: number }[]): Promise<void>;
}

/** An operator's decision about a version. Overrides the catalog files. */
export interface ModelLifecycle {
  slug: string;
  version: string;
  /** When notice was given. */
  noticeAt: number;
  deprecatedAt: number | null;
  retiredAt: number | null;
}

export interface ModelLifecycleRepository {
  list(): Promise<ModelLifecycle[]>;
  save(lifecycle: ModelLifecycle, entry: AuditEntry): Promise<void>;
}

/**
 * Counters that grow with every change of a topic, so that other processes on the same store can drop their caches.
 * Repositories bump the topic in the same transaction as the change.
 */
export type RevisionTopic = 'keys' | 'models';

/** A changed account, which concerns all of its keys, or a new or changed key. */
export type KeyChange =
  | { accountId: string }
  | {
      keyId: string;
      /** Undefined: not known here. The key is not new then. */
      hash?: string | undefined;
    };

export interface RevisionRepository {
  current(): Promise<Record<RevisionTopic, number>>;
  /**
   * What changed after one revision of the keys and up to another one. Undefined when the store does not know all of it: it remembers
   * the last thousand changes.
   */
  keyChanges(after: number, upTo: number): Promise<KeyChange[] | undefined>;
}

export interface AuditFilter {
  /** Account of the target. */
  accountId?: string | undefined;
  /** Id of the key, `operator` or `server`. */
  actorId?: string | undefined;
  /** Account of the key. */
  actorAccountId?: string | undefined;
  action?: AuditAction | undefined;
  targetId?: string | undefined;
  /** Milliseconds since 1970, inclusive. */
  start?: number | undefined;
  /** Exclusive. */
  end?: number | undefined;
}

/** The last entry of a page. */
export interface AuditPosition {
  time: number;
  id: string;
}

/** Who changed what. Repositories write the entry of a change of accounts, keys and lifecycles in the transaction of the change. */
export interface AuditLog {
  /** For changes outside the store only. */
  append(entry: AuditEntry): Promise<void>;
  /** Newest first, those before the position. */
  list(
    filter: AuditFilter,
    page: { limit: number; before?: AuditPosition | undefined },
    caller?: ReportCaller,
  ): Promise<AuditEntry[]>;
  count(filter: AuditFilter): Promise<number>;
  /** Removes some entries that are older, and says how many. */
  removeOlder(than: number): Promise<number>;
}
