import type { FastifyRequest } from 'fastify';
import plugin from 'fastify-plugin';
import type { Principal } from '../../domain/principal.ts';
import type { Scope } from '../../domain/scopes.ts';
import { ApiError } from '../../errors/api-error.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import type { AuthenticationService } from '../../services/access/authentication.ts';
import type { KeyBackoff } from '../request/key-backoff.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The scope that a key needs for this route. */
    scope?: Scope;
  }
}

export interface AuthenticateOptions {
  authentication: AuthenticationService;
  backoff: KeyBackoff;
  metrics: Pick<Metrics, 'refusedKeys'>;
}

/** Runs on the head of the request, before the body is read. */
export const authenticate = plugin<AuthenticateOptions>(async (server, { authentication, backoff, metrics }) => {
  const refuse = (error: Error, request: FastifyRequest, done: (error: Error) => void) => {
    if (!(error instanceof ApiError) || error.status !== 401) {
      done(error);
      return;
    }
    const isDelayed = backoff.refuse(request.ip, () => done(error));
    metrics.refusedKeys.inc({ code: error.code, delayed: String(isDelayed) });
  };
  const accept = (request: FastifyRequest, principal: Principal) => {
    const { record } = request;
    record.principal = principal;
    if (principal.key.allowedAddresses.length > 0) authentication.requireAddress(principal, request.ip);
    const { scope } = record.config;
    if (scope !== undefined) authentication.requireScope(principal, scope);
  };
  // A known key is found synchronously: a hook with a callback then saves every request a promise.
  server.addHook('onRequest', (request, _reply, done) => {
    try {
      const found = authentication.authenticate(request.headers.authorization);
      if (found instanceof Promise) {
        found
          .then((principal) => accept(request, principal))
          .then(
            () => done(),
            (error) => refuse(error, request, done),
          );
        return;
      }
      accept(request, found);
    } catch (error) {
      refuse(error as Error, request, done);
      return;
    }
    done();
  });
});
