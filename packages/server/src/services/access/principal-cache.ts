import type { Principal } from '@baobab/core/domain/principal.ts';
import type { KeyChange } from '@baobab/core/ports/repositories.ts';

/** Callers that were found in the store, and hashes that were not. What is read while it changes is not kept. */
export interface PrincipalCache {
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
export function remember<T>(cache: Map<string, T>, id: string, value: T): void {
  if (cache.size >= MAX_CACHED) cache.delete(cache.keys().next().value as string);
  cache.set(id, value);
}

function concernedBy(changes: readonly KeyChange[]): (principal: Principal) => boolean {
  const keyIds = new Set(changes.map((change) => ('keyId' in change ? change.keyId : undefined)));
  const accountIds = new Set(changes.map((change) => ('accountId' in change ? change.accountId : undefined)));
  return ({ key, account }) => keyIds.has(key.id) || accountIds.has(account.id);
}

export function createPrincipalCache(): PrincipalCache {
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
