import type { Account, AccountSettings, AccountState, ApiKey, Changes, KeyRights } from '../domain/principal.ts';

/** A part of a list, oldest first. Without a limit, all of it. */
export interface PageFilter {
  /** The last one of the page before. */
  after?: { id: string; createdAt: number } | undefined;
  limit?: number | undefined;
}

/** One interface per role. Every call resolves when its effect is durable. */
export interface AccountRepository {
  create(account: Account): Promise<void>;
  get(id: string): Promise<Account | undefined>;
  findByName(name: string): Promise<Account | undefined>;
  list(page?: PageFilter): Promise<Account[]>;
  /** Undefined fields stay as they are. */
  update(id: string, changes: Changes<AccountSettings & AccountState>): Promise<Account | undefined>;
}

export interface KeyRepository {
  /** `hash` is the SHA-256 of the secret, in hex. The secret itself is never stored. */
  create(key: ApiKey, hash: string): Promise<void>;
  get(id: string): Promise<ApiKey | undefined>;
  /** Includes the stored hash, so that the caller can compare in constant time. */
  findByHash(hash: string): Promise<{ key: ApiKey; account: Account; hash: string } | undefined>;
  list(filter: PageFilter & { accountId?: string | undefined }): Promise<ApiKey[]>;
  /** Keys of an account that can be used now, or were made since a time. */
  count(accountId: string, times: { now: number; madeSince: number }): Promise<number>;
  /** Undefined fields stay as they are. */
  update(id: string, changes: Changes<KeyRights & Pick<ApiKey, 'revokedAt'>>): Promise<ApiKey | undefined>;
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
  save(lifecycle: ModelLifecycle): Promise<void>;
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
   * the last thousand changes, and none that a server of an earlier version made.
   */
  keyChanges(after: number, upTo: number): Promise<KeyChange[] | undefined>;
}
