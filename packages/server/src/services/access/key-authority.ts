import { isOperator, type Operation } from '@baobab/core/domain/operations.ts';
import { type ApiKey, checkUsable, type Principal, requireRight } from '@baobab/core/domain/principal.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { AccountRepository, KeyRepository } from '@baobab/core/ports/repositories.ts';

/** Who asked for work that runs later: a key, for its account or, by an operator, for another one. */
export interface WorkOwner {
  keyId: string;
  accountId: string;
}

/** Reads the current rights of a key. */
export interface KeyAuthority {
  /** Throws the error that a request with this key would get. Models are checked by the endpoint. */
  principal(owner: WorkOwner, operations: readonly Operation[]): Promise<Principal>;
}

/** A change to a key is seen after this time at most. */
const FRESH_MS = 1_000;
const MAX_KNOWN = 1_000;

export interface KeyAuthorityDependencies {
  keys: KeyRepository;
  accounts: AccountRepository;
  clock: Clock;
  /** For the age of what is remembered. */
  steadyClock: Clock;
}

export function createKeyAuthority({ keys, accounts, clock, steadyClock }: KeyAuthorityDependencies): KeyAuthority {
  const known = new Map<string, { principal: Promise<Principal>; at: number }>();

  async function usable(key: ApiKey, accountId: string): Promise<Principal> {
    const account = await accounts.get(accountId);
    if (account === undefined) throw errors.keyRevoked();
    const principal = { key, account };
    checkUsable(principal, clock.now());
    return principal;
  }

  async function look({ keyId, accountId }: WorkOwner): Promise<Principal> {
    const key = await keys.get(keyId);
    if (key === undefined) throw errors.keyRevoked();
    const own = await usable(key, key.accountId);
    if (accountId === key.accountId) return own;
    if (!isOperator(key)) throw errors.insufficientScope('admin');
    return usable(key, accountId);
  }

  function current(owner: WorkOwner): Promise<Principal> {
    const now = steadyClock.now();
    const id = `${owner.keyId} ${owner.accountId}`;
    const found = known.get(id);
    if (found !== undefined && now - found.at < FRESH_MS) return found.principal;
    if (known.size >= MAX_KNOWN) known.clear();
    const principal = look(owner);
    known.set(id, { principal, at: now });
    return principal;
  }

  return {
    async principal(owner, operations) {
      const principal = await current(owner);
      for (const operation of operations) requireRight(principal, operation);
      return principal;
    },
  };
}
