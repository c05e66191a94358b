import { type Principal, requireRight } from '@baobab/core/domain/principal.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import { turnShares } from '@baobab/core/runtime/turn-shares.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';
import plugin from 'fastify-plugin';
import type { KeyBackoff } from '../../admission/failures-by-address.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import type { AuthenticationService } from '../../services/access/authentication.ts';
import type { SessionsService } from '../../services/access/sessions.ts';
import { turnShareOf } from '../request/request-record.ts';
import { checkSameOrigin, sessionSecret, setSessionCookie } from '../request/session-cookie.ts';

export interface AuthenticateOptions {
  authentication: AuthenticationService;
  sessions: SessionsService;
  clock: Clock;
  keyBackoff: KeyBackoff;
  metrics: Pick<Metrics, 'refusedKeys'>;
}

/** Anthropic's clients send the key in a header of its own. */
function apiKeyOf({ headers }: FastifyRequest): string | undefined {
  const key = headers['x-api-key'];
  return typeof key === 'string' && key !== '' ? `Bearer ${key}` : undefined;
}

/** Some clients send both headers and leave one empty. */
const hasNoKey = (authorization: string): boolean =>
  authorization.length <= 'Bearer '.length && /^(?:bearer)?$/i.test(authorization.trim());

/** Runs on the head of the request, before the body is read. Accepts a key, or the cookie of a session. */
export const authenticate = plugin<AuthenticateOptions>(async (server, options) => {
  const { authentication, sessions, clock, keyBackoff, metrics } = options;
  const refuse = (error: Error, request: FastifyRequest, done: (error: Error) => void) => {
    if (!(error instanceof ApiError) || error.status !== 401) {
      done(error);
      return;
    }
    const isDelayed = keyBackoff.refuse(request.ip, () => done(error));
    metrics.refusedKeys.inc({ code: error.code, delayed: String(isDelayed) });
  };
  const accept = (request: FastifyRequest, principal: Principal): Principal => {
    const { record } = request;
    record.principal = principal;
    if (principal.key.allowedAddresses.length > 0) authentication.requireAddress(principal, request.ip);
    const { operation } = record.config;
    if (operation !== undefined) requireRight(principal, operation);
    return principal;
  };
  const bySession = async (request: FastifyRequest, reply: FastifyReply, secret: string): Promise<Principal> => {
    const { session, principal, renewed } = await sessions.authenticate(secret);
    checkSameOrigin(request, sessions.csrfToken(secret));
    if (renewed) setSessionCookie(reply, { secret, maxAgeMs: session.expiresAt - clock.now() });
    request.record.session = session;
    return principal;
  };
  const find = (request: FastifyRequest, reply: FastifyReply): Principal | Promise<Principal> => {
    const { authorization: given, cookie } = request.headers;
    const authorization = given === undefined || hasNoKey(given) ? (apiKeyOf(request) ?? given) : given;
    const secret = authorization === undefined && cookie !== undefined ? sessionSecret(request) : undefined;
    return secret === undefined ? authentication.authenticate(authorization) : bySession(request, reply, secret);
  };
  server.addHook('onRoute', ({ url, config }) => {
    if (config?.operation === undefined) throw new Error(`the route ${url} names no operation`);
  });
  // A known key is found synchronously: a hook with a callback then saves every request a promise.
  server.addHook('onRequest', (request, reply, done) => {
    const proceed = (principal: Principal) => void turnShares.run(turnShareOf(principal), done);
    let principal: Principal;
    try {
      const found = find(request, reply);
      if (found instanceof Promise) {
        found.then((principal) => accept(request, principal)).then(proceed, (error) => refuse(error, request, done));
        return;
      }
      principal = accept(request, found);
    } catch (error) {
      refuse(error as Error, request, done);
      return;
    }
    proceed(principal);
  });
});
