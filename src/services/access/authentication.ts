import { timingSafeEqual } from 'node:crypto';
import { type ApiKey, checkUsable, type Principal } from '../../domain/principal.ts';
import type { Scope } from '../../domain/scopes.ts';
import { errors } from '../../errors/errors.ts';
import type { Clock } from '../../ports/clock.ts';
import type { AccountRepository, KeyRepository, RevisionRepository } from '../../ports/repositories.ts';
import { type AddressList, createAddressList } from '../../runtime/addresses.ts';
import { hashSecret, isPlausibleSecret } from './key-secret.ts';

export interface AuthenticationService {
  /** Finds the caller by the `Authorization` header, or throws a 401 or 403. */
  authenticate(authorization: string | undefined): Principal | Promise<Principal>;
  /** Finds the caller of a session by the id of its key. Throws like `authenticate`. */
  authenticateKey(keyId: string): Principal | Promise<Principal>;
  requireScope(principal: Principal, scope: Scope): void;
  /** Throws 403 when the key may not be used from the address. Undefined: not known, and only allowed without a list. */
  requireAddress(principal: Principal, address: string | undefined): void;
  /** Drops the cache when keys have changed in the store. Call it a few times a second. */
  refresh(): Promise<void>;
  /** Drops the cache after this process has changed keys. */
  invalidate(): void;
  /** Calls the listener each time keys or accounts may have changed. Returns the function that ends it. */
  onChange(listener: () => void): () => void;
  /** Writes the collected times of last use to the store. */
  flushUses(): Promise<void>;
}

const MAX_CACHED = 10_000;

/** Drops the oldest entry when the cache is full. */
function remember<T>(cache: Map<string, T>, hash: string, value: T): void {
  if (cache.size >= MAX_CACHED) cache.delete(cache.keys().next().value as string);
  cache.set(hash, value);
}

const MINUTE_MS = 60_000;

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
  clock: Clock;
}

export function createAuthentication(dependencies: AuthenticationDependencies): AuthenticationService {
  const { accounts, keys, revisions, clock } = dependencies;
  // By hash, so that no secret stays in memory longer than its request. Keys of sessions by id, which no hash is equal to.
  const known = new Map<string, Principal>();
  // Separate, so that a flood of made-up keys cannot evict valid ones.
  const unknown = new Map<string, true>();
  const uses = new Map<string, number>();
  const writtenUses = new Map<string, number>();
  const listeners = new Set<() => void>();
  let revision = -1;
  let generation = 0;

  async function readKey(sentHash: string): Promise<Principal | undefined> {
    const before = generation;
    const found = await keys.findByHash(sentHash);
    const sent = Buffer.from(sentHash, 'hex');
    const hash = found === undefined ? sent : Buffer.from(found.hash, 'hex');
    const principal =
      found !== undefined && timingSafeEqual(hash, sent) ? { account: found.account, key: found.key } : undefined;
    // Keys may have changed while this one was read: then the result is not cached.
    if (before === generation) {
      if (principal === undefined) remember(unknown, sentHash, true);
      else remember(known, sentHash, principal);
    }
    return principal;
  }

  async function readKeyById(id: string): Promise<Principal | undefined> {
    const before = generation;
    const key = await keys.get(id);
    const account = key && (await accounts.get(key.accountId));
    if (key === undefined || account === undefined) return undefined;
    const principal = { account, key };
    if (before === generation) remember(known, id, principal);
    return principal;
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
      if (secret === undefined) throw errors.missingApiKey();
      const sentHash = hashSecret(secret);
      const cached = known.get(sentHash);
      // A mistyped key is found by its checksum, without a lookup.
      if (cached !== undefined || unknown.has(sentHash) || !isPlausibleSecret(secret)) return accept(cached);
      return readKey(sentHash).then(accept);
    },
    authenticateKey(keyId) {
      const cached = known.get(keyId);
      return cached === undefined ? readKeyById(keyId).then(accept) : accept(cached);
    },
    requireScope({ key }, scope) {
      // Operators manage all keys.
      if (scope === 'keys' && key.scopes.includes('admin')) return;
      if (!key.scopes.includes(scope)) throw errors.insufficientScope(scope);
    },
    requireAddress({ key }, address) {
      if (key.allowedAddresses.length === 0) return;
      if (address === undefined || !addressListOf(key).includes(address)) throw errors.addressNotAllowed(address);
    },
    async refresh() {
      const current = (await revisions.current()).keys;
      if (current !== revision) {
        revision = current;
        service.invalidate();
      }
    },
    invalidate() {
      generation += 1;
      known.clear();
      unknown.clear();
      for (const listener of listeners) listener();
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
