import { randomBytes } from 'node:crypto';
import type { Principal } from '@baobab/core/domain/principal.ts';
import { HOUR_MS } from '@baobab/core/domain/time/durations.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Session, SessionRepository } from '@baobab/core/ports/sessions.ts';
import type { AuthenticationService } from './authentication.ts';
import { hashSecret } from './key-secret.ts';

/** A way to sign in. Single sign-on would be another one. */
export interface AuthenticationMethod<Credentials> {
  /** Throws a 401 or 403. */
  authenticate(credentials: Credentials): Principal | Promise<Principal>;
}

export const keyMethod = (authentication: AuthenticationService): AuthenticationMethod<string> => ({
  authenticate: (key) => authentication.authenticate(`Bearer ${key}`),
});

export interface ActiveSession {
  session: Session;
  principal: Principal;
  /** Its end has moved: the cookie must be sent again. */
  renewed: boolean;
}

export interface SessionsService {
  /** Starts a session. The secret goes into a cookie and is not stored. */
  start(principal: Principal): Promise<{ secret: string; session: Session }>;
  /** Finds the caller by the secret of a session and moves its end. Throws 401 when it has ended, 403 for a revoked key. */
  authenticate(secret: string): Promise<ActiveSession>;
  /** Proves that a request comes from a page that can read answers of this service. */
  csrfToken(secret: string): string;
  end(secret: string): Promise<void>;
  removeExpired(): Promise<void>;
}

/** A session ends after this time without a request. */
const IDLE_MS = HOUR_MS;
/** And at the latest after this time. */
const MAX_AGE_MS = 12 * HOUR_MS;
/** The end moves at most once in this time. */
const RENEW_MS = 300_000;
/** A session that ended on another server is refused after this time at the latest. */
const CACHED_MS = 500;
const MAX_CACHED = 10_000;
const MAX_PER_KEY = 50;

export interface SessionsDependencies {
  sessions: SessionRepository;
  authentication: Pick<AuthenticationService, 'authenticateKey'>;
  clock: Clock;
  /** For the age of what is remembered. */
  steadyClock: Clock;
}

export function createSessions(dependencies: SessionsDependencies): SessionsService {
  const { sessions, authentication, clock, steadyClock } = dependencies;
  const cache = new Map<string, { session: Session; readAt: number }>();

  function remember(session: Session): void {
    cache.delete(session.hash);
    if (cache.size >= MAX_CACHED) cache.delete(cache.keys().next().value as string);
    cache.set(session.hash, { session, readAt: steadyClock.now() });
  }

  async function find(hash: string): Promise<Session | undefined> {
    const cached = cache.get(hash);
    if (cached !== undefined && steadyClock.now() - cached.readAt < CACHED_MS) return cached.session;
    const session = await sessions.find(hash);
    if (session === undefined) cache.delete(hash);
    else remember(session);
    return session;
  }

  return {
    async start({ key }) {
      const secret = randomBytes(32).toString('base64url');
      const now = clock.now();
      const session = { hash: hashSecret(secret), keyId: key.id, createdAt: now, expiresAt: now + IDLE_MS };
      await sessions.create(session, { maxPerKey: MAX_PER_KEY });
      return { secret, session };
    },
    async authenticate(secret) {
      const session = await find(hashSecret(secret));
      const now = clock.now();
      if (session === undefined || session.expiresAt <= now) throw errors.sessionExpired();
      const principal = await authentication.authenticateKey(session.keyId);
      const expiresAt = Math.min(now + IDLE_MS, session.createdAt + MAX_AGE_MS);
      if (expiresAt - session.expiresAt < RENEW_MS) return { session, principal, renewed: false };
      await sessions.renew(session.hash, expiresAt);
      const renewed = { ...session, expiresAt };
      remember(renewed);
      return { session: renewed, principal, renewed: true };
    },
    csrfToken: (secret) => hashSecret(`csrf:${secret}`),
    async end(secret) {
      const hash = hashSecret(secret);
      await sessions.remove(hash);
      cache.delete(hash);
    },
    removeExpired: () => sessions.removeExpired(clock.now()),
  };
}
