import type { Operation } from '@baobab/core/domain/operations.ts';
import { checkUsable, type Principal, requireRight } from '@baobab/core/domain/principal.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { AccountRepository, KeyRepository } from '@baobab/core/ports/repositories.ts';

/** Reads the current rights of a key. */
export interface KeyAuthority {
  /** Throws the error that a request with this key would get. Models are checked by the endpoint. */
  principal(keyId: string, operations: readonly Operation[]): Promise<Principal>;
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

  async function look(keyId: string): Promise<Principal> {
    const key = await keys.get(keyId);
    const account = key && (await accounts.get(key.accountId));
    if (key === undefined || account === undefined) throw errors.keyRevoked();
    const principal = { key, account };
    checkUsable(principal, clock.now());
    return principal;
  }

  function current(keyId: string): Promise<Principal> {
    const now = steadyClock.now();
    const found = known.get(keyId);
    if (found !== undefined && now - found.at < FRESH_MS) return found.principal;
    if (known.size >= MAX_KNOWN) known.clear();
    const principal = look(keyId);
    known.set(keyId, { principal, at: now });
    return principal;
  }

  return {
    async principal(keyId, operations) {
      const principal = await current(keyId);
      for (const operation of operations) requireRight(principal, operation);
      return principal;
    },
  };
}
