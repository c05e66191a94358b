import type { Principal } from '@baobab/core/domain/principal.ts';
import { type LimitRules, NO_LIMITS } from '@baobab/core/domain/rate-limits.ts';
import { isoTime, isoTimeOrNull } from '@baobab/core/domain/time/dates.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Session } from '@baobab/core/ports/sessions.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import type { KeyBackoff, SignInLimit } from '../../../admission/failures-by-address.ts';
import type { AuthenticationService } from '../../../services/access/authentication.ts';
import type { AuthenticationMethod, SessionsService } from '../../../services/access/sessions.ts';
import { commonErrors, ErrorResponse } from '../../answer/error-answer.ts';
import { fillAbsentBody, MAY_BE_ABSENT } from '../../body/optional-body.ts';
import { principalOf } from '../../request/request-record.ts';
import { sessionSecret, setSessionCookie } from '../../request/session-cookie.ts';
import { appliedLimitsToWire } from '../keys/limits.ts';
import { EndedSession, SessionShape, SignIn } from './schema.ts';

interface ServerFacts {
  version: string;
  region: string;
  limitRules(): LimitRules;
}

const sessionToWire = (
  { account, key }: Principal,
  current: { session: Session; csrfToken: string } | undefined,
  { version, region, limitRules }: ServerFacts,
): Static<typeof SessionShape> => ({
  object: 'session',
  account: { id: account.id, name: account.name },
  key: { id: key.id, name: key.name, prefix: key.prefix },
  scopes: [...key.scopes],
  csrf_token: current?.csrfToken ?? null,
  created_at: isoTimeOrNull(current?.session.createdAt ?? null),
  expires_at: current === undefined ? isoTimeOrNull(key.expiresAt) : isoTime(current.session.expiresAt),
  version,
  region,
  default_limits: appliedLimitsToWire({ key: NO_LIMITS, account: NO_LIMITS }, limitRules()),
});

export interface SignInDependencies extends ServerFacts {
  sessions: SessionsService;
  keyMethod: AuthenticationMethod<string>;
  authentication: Pick<AuthenticationService, 'requireAddress'>;
  keyBackoff: KeyBackoff;
  signInLimit: SignInLimit;
  clock: Clock;
}

const tags = ['Sessions'];

const bearerOf = (authorization: string | undefined): string | undefined =>
  /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];

/** Signing in. It needs no authentication: the key may be in the body. */
export const signInRoutes: FastifyPluginAsyncTypebox<SignInDependencies> = async (server, dependencies) => {
  const { sessions, keyMethod, authentication, keyBackoff, signInLimit, clock } = dependencies;

  server.post(
    '/sessions',
    {
      schema: {
        summary: 'Sign in with a key and get a session cookie',
        description:
          'For browsers. The cookie is accepted instead of a key everywhere; a POST or DELETE with it needs the header `X-Baobab-CSRF`.',
        tags,
        security: [{ key: [] }, {}],
        body: { ...SignIn, ...MAY_BE_ABSENT },
        response: { 200: SessionShape, ...commonErrors, 413: ErrorResponse },
      },
      preValidation: fillAbsentBody,
    },
    async (request, reply) => {
      signInLimit.check(request.ip);
      const key = request.body.key ?? bearerOf(request.headers.authorization);
      try {
        if (key === undefined) throw errors.missingApiKey();
        const principal = await keyMethod.authenticate(key);
        authentication.requireAddress(principal, request.ip);
        request.record.principal = principal;
        const { secret, session } = await sessions.start(principal);
        setSessionCookie(reply, { secret, maxAgeMs: session.expiresAt - clock.now() });
        reply.header('cache-control', 'no-store');
        return sessionToWire(principal, { session, csrfToken: sessions.csrfToken(secret) }, dependencies);
      } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 401) throw error;
        signInLimit.countFailure(request.ip);
        await new Promise<void>((resolve) => keyBackoff.refuse(request.ip, resolve));
        throw error;
      }
    },
  );
};

export interface SessionDependencies extends ServerFacts {
  sessions: SessionsService;
}

/** The caller's own session. */
export const sessionRoutes: FastifyPluginAsyncTypebox<SessionDependencies> = async (server, dependencies) => {
  const { sessions } = dependencies;

  server.get(
    '/sessions/current',
    {
      config: { operation: 'sessions.get' },
      schema: {
        summary: 'Retrieve the current session: its key, rights and expiry',
        tags,
        response: { 200: SessionShape, ...commonErrors },
      },
    },
    async (request, reply) => {
      const { session } = request.record;
      const secret = sessionSecret(request);
      const current = session && secret ? { session, csrfToken: sessions.csrfToken(secret) } : undefined;
      reply.header('cache-control', 'no-store');
      return sessionToWire(principalOf(request), current, dependencies);
    },
  );

  server.delete(
    '/sessions/current',
    {
      config: { operation: 'sessions.end' },
      schema: { summary: 'Sign out', tags, response: { 200: EndedSession, ...commonErrors } },
    },
    async (request, reply) => {
      const secret = sessionSecret(request);
      if (request.record.session !== undefined && secret !== undefined) await sessions.end(secret);
      setSessionCookie(reply, undefined);
      return { object: 'session' as const, deleted: true as const };
    },
  );
};
