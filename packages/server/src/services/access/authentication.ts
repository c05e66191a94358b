import { timingSafeEqual } from 'node:crypto';
import { type ApiKey, checkUsable, type Principal } from '@baobab/core/domain/principal.ts';
import { MINUTE_MS } from '@baobab/core/domain/time/durations.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type {
  AccountRepository,
  KeyChange,
  KeyRepository,
  RevisionRepository,
} from '@baobab/core/ports/repositories.ts';
import type { StoreHealth } from '@baobab/core/ports/store-health.ts';
import { type AddressList, createAddressList } from '@baobab/core/runtime/addresses.ts';
import { hashSecret, isPlausibleSecret } from './key-secret.ts';

export type ChangeListener = (isConcerned: (principal: Principal) => boolean) => void;

export interface AuthenticationService {
  /** Finds the caller by the `Authorization` header, or throws a 401 or 403. */
  authenticate(authorization: string | undefined): Principal | Promise<Principal>;
  /** Finds the caller of a session by the id of its key. Throws like `authenticate`. */
  authenticateKey(keyId: string): Principal | Promise<Principal>;
  /** Throws 403 when the key may not be used from the address. Undefined: not known, and only allowed without a list. */
  requireAddress(principal: Principal, address: string | undefined): void;
  /** Forgets the keys that have changed in the store. Call it a few times a second. */
  refresh(): Promise<void>;
  /** Forgets a key, or those of an account, that this process has changed. A new key was not known. */
  forget(change: KeyChange): void;
  /** Calls the listener each time keys or accounts may have changed, to ask which ones. Returns the function that ends it. */
  onChange(listener: ChangeListener): () => void;
  /** Writes the collected times of last use to the store. */
  flushUses(): Promise<void>;
}

/** Rounded, so that a key causes at most one write a minute. */
const minuteOf = (time: number): number => time - (time % MINUTE_MS);

/** Compiled once for each cached key. */
const addressLists = new WeakMap<ApiKey, AddressList>();

function addressListOf(key: ApiKey): AddressList {
  let list = addressLists.get(key);
  if (list === undefined) {
    list = createAddressList(key.allowedAddresses);
    addressLists.set(key, list);
  }
  return list;
}

export interface AuthenticationDependencies {
  accounts: Pick<AccountRepository, 'get'>;
  keys: KeyRepository;
  revisions: RevisionRepository;
  health: Pick<StoreHealth, 'back'>;
  clock: Clock;
}

export function createAuthentication(dependencies: AuthenticationDependencies): AuthenticationService {
  const { accounts, keys, revisions, health, clock } = dependencies;
  // By hash, so that no secret stays in memory longer than its request. Keys of sessions by id.
  const cache = createPrincipalCache();
  const uses = new Map<string, number>();
  const writtenUses = new Map<string, number>();
  const listeners = new Set<ChangeListener>();
  let revision: number | undefined;

  const tell: ChangeListener = (isConcerned) => {
    for (const listener of listeners) listener(isConcerned);
  };

  async function findByHash(sentHash: string): Promise<Principal | undefined> {
    await health.back();
    const found = await keys.findByHash(sentHash);
    if (found === undefined) return undefined;
    const isEqual = timingSafeEqual(Buffer.from(found.hash, 'hex'), Buffer.from(sentHash, 'hex'));
    return isEqual ? { account: found.account, key: found.key } : undefined;
  }

  async function findById(id: string): Promise<Principal | undefined> {
    await health.back();
    const key = await keys.get(id);
    const account = key && (await accounts.get(key.accountId));
    return key && account && { account, key };
  }

  function accept(principal: Principal | undefined): Principal {
    if (principal === undefined) throw errors.invalidApiKey();
    const now = clock.now();
    checkUsable(principal, now);
    uses.set(principal.key.id, now);
    return principal;
  }

  const service: AuthenticationService = {
    authenticate(authorization) {
      if (authorization === undefined || authorization === '') throw errors.missingApiKey();
      const secret = /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
      if (secret === undefined) throw errors.unreadableApiKey();
      const sentHash = hashSecret(secret);
      const cached = cache.get(sentHash);
      // A mistyped key is found by its checksum, without a lookup.
      if (cached !== undefined || cache.isUnknown(sentHash) || !isPlausibleSecret(secret)) return accept(cached);
      return cache.read(sentHash, () => findByHash(sentHash)).then(accept);
    },
    authenticateKey(keyId) {
      const cached = cache.get(keyId);
      return cached === undefined ? cache.read(keyId, () => findById(keyId)).then(accept) : accept(cached);
    },
    requireAddress({ key }, address) {
      if (key.allowedAddresses.length === 0) return;
      if (address === undefined || !addressListOf(key).includes(address)) throw errors.addressNotAllowed(address);
    },
    async refresh() {
      const current = (await revisions.current()).keys;
      if (current === revision) return;
      const changes = revision === undefined ? undefined : await revisions.keyChanges(revision, current);
      revision = current;
      if (changes !== undefined) return tell(cache.drop(changes));
      cache.clear();
      tell(() => true);
    },
    forget(change) {
      tell(cache.drop([change]));
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async flushUses() {
      const gathered = [...uses]
        .map(([id, usedAt]) => [id, minuteOf(usedAt)] as const)
        .filter(([id, lastUsedAt]) => writtenUses.get(id) !== lastUsedAt);
      uses.clear();
      if (gathered.length === 0) return;
      await keys.touch(gathered.map(([id, lastUsedAt]) => ({ id, lastUsedAt })));
      for (const [id, lastUsedAt] of gathered) remember(writtenUses, id, lastUsedAt);
    },
  };
  return service;
}

/** Callers that were found in the store, and hashes that were not. What is read while it changes is not kept. */
interface PrincipalCache {
  /** By the hash of a key, or by the id of a key, which no hash is equal to. */
  get(id: string): Principal | undefined;
  isUnknown(hash: string): boolean;
  read(id: string, look: () => Promise<Principal | undefined>): Promise<Principal | undefined>;
  /** Forgets what the changes concern. Returns whether they concern a caller. */
  drop(changes: readonly KeyChange[]): (principal: Principal) => boolean;
  clear(): void;
}

const MAX_CACHED = 10_000;
/** A look-up during which more has changed is not kept. */
const MAX_RECENT = 1_000;

/** Drops the oldest entry when the cache is full. */
function remember<T>(cache: Map<string, T>, id: string, value: T): void {
  if (cache.size >= MAX_CACHED) cache.delete(cache.keys().next().value as string);
  cache.set(id, value);
}

function concernedBy(changes: readonly KeyChange[]): (principal: Principal) => boolean {
  const keyIds = new Set(changes.map((change) => ('keyId' in change ? change.keyId : undefined)));
  const accountIds = new Set(changes.map((change) => ('accountId' in change ? change.accountId : undefined)));
  return ({ key, account }) => keyIds.has(key.id) || accountIds.has(account.id);
}

function createPrincipalCache(): PrincipalCache {
  const known = new Map<string, Principal>();
  // Separate, so that a flood of made-up keys cannot evict valid ones.
  const unknown = new Map<string, true>();
  // The last changes, for look-ups that are running. `count` is the number of all.
  let recent: KeyChange[] = [];
  let count = 0;

  function hasChanged(id: string, principal: Principal | undefined, before: number): boolean {
    const missed = count - before;
    if (missed > recent.length) return true;
    const changes = recent.slice(recent.length - missed);
    if (principal !== undefined) return concernedBy(changes)(principal);
    return changes.some((change) => 'keyId' in change && change.hash === id);
  }

  return {
    get: (id) => known.get(id),
    isUnknown: (hash) => unknown.has(hash),
    async read(id, look) {
      const before = count;
      const principal = await look();
      if (hasChanged(id, principal, before)) return principal;
      if (principal === undefined) remember(unknown, id, true);
      else remember(known, id, principal);
      return principal;
    },
    drop(changes) {
      count += changes.length;
      recent = [...recent, ...changes].slice(-MAX_RECENT);
      const isConcerned = concernedBy(changes);
      for (const [id, principal] of known) if (isConcerned(principal)) known.delete(id);
      for (const change of changes) {
        if ('keyId' in change && change.hash !== undefined) unknown.delete(change.hash);
      }
      return isConcerned;
    },
    clear() {
      count += 1;
      recent = [];
      known.clear();
      unknown.clear();
    },
  };
}
