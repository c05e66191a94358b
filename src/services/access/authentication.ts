import { timingSafeEqual } from 'node:crypto';
import type { Principal } from '../../domain/principal.ts';
import type { Scope } from '../../domain/scopes.ts';
import { errors } from '../../errors/errors.ts';
import type { Clock } from '../../ports/clock.ts';
import type { KeyRepository, RevisionRepository } from '../../ports/repositories.ts';
import { hashSecret, isPlausibleSecret } from './key-secret.ts';

export interface AuthenticationService {
  /** The caller behind an `Authorization` header; throws the 401 or 403 that applies. */
  authenticate(authorization: string | undefined): Principal | Promise<Principal>;
  requireScope(principal: Principal, scope: Scope): void;
  /** Reads whether keys have changed in the store; call it a few times a second. */
  refresh(): Promise<void>;
  /** Forget everything cached: keys were changed by this process. */
  invalidate(): void;
  /** Writes the times of last use that have gathered. */
  flushUses(): Promise<void>;
}

const MAX_CACHED = 10_000;

/** Keeps the newest entries; the oldest one goes first. */
function remember<T>(cache: Map<string, T>, hash: string, value: T): void {
  if (cache.size >= MAX_CACHED) cache.delete(cache.keys().next().value as string);
  cache.set(hash, value);
}

const MINUTE_MS = 60_000;

/** Exact enough for "last used", and one key then costs one write a minute at most. */
const minuteOf = (time: number): number => time - (time % MINUTE_MS);

export interface AuthenticationDependencies {
  keys: KeyRepository;
  revisions: RevisionRepository;
  clock: Clock;
}

export function createAuthentication({ keys, revisions, clock }: AuthenticationDependencies): AuthenticationService {
  // Keyed by the hash of what was sent, so that a secret never lies in memory longer than its request.
  const known = new Map<string, Principal>();
  // Apart, so that a flood of made-up keys cannot push the real ones out.
  const unknown = new Map<string, true>();
  const uses = new Map<string, number>();
  const writtenUses = new Map<string, number>();
  let revision = -1;
  let generation = 0;

  async function readKey(sentHash: string): Promise<Principal | undefined> {
    const before = generation;
    const found = await keys.findByHash(sentHash);
    const sent = Buffer.from(sentHash, 'hex');
    const hash = found === undefined ? sent : Buffer.from(found.hash, 'hex');
    const principal =
      found !== undefined && timingSafeEqual(hash, sent) ? { account: found.account, key: found.key } : undefined;
    // A revocation may have come while we read: then this answer is not worth keeping.
    if (before === generation) {
      if (principal === undefined) remember(unknown, sentHash, true);
      else remember(known, sentHash, principal);
    }
    return principal;
  }

  function accept(principal: Principal | undefined): Principal {
    if (principal === undefined) throw errors.invalidApiKey();
    const { key } = principal;
    if (key.revokedAt !== null) throw errors.keyRevoked();
    const now = clock.now();
    if (key.expiresAt !== null && key.expiresAt <= now) throw errors.expiredApiKey(key.expiresAt);
    uses.set(key.id, now);
    return principal;
  }

  const service: AuthenticationService = {
    authenticate(authorization) {
      if (authorization === undefined || authorization === '') throw errors.missingApiKey();
      const secret = /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
      if (secret === undefined) throw errors.missingApiKey();
      const sentHash = hashSecret(secret);
      const cached = known.get(sentHash);
      // A mistyped key is told by its checksum; one that is known needs no such proof.
      if (cached !== undefined || unknown.has(sentHash) || !isPlausibleSecret(secret)) return accept(cached);
      return readKey(sentHash).then(accept);
    },
    requireScope({ key }, scope) {
      if (!key.scopes.includes(scope)) throw errors.insufficientScope(scope);
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
