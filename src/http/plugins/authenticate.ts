import type { FastifyRequest } from 'fastify';
import plugin from 'fastify-plugin';
import type { Principal } from '../../domain/principal.ts';
import type { Scope } from '../../domain/scopes.ts';
import type { AuthenticationService } from '../../services/access/authentication.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The scope that a key needs for this route. */
    scope?: Scope;
  }
}

/** Runs on the head of the request, before the body is read. */
export const authenticate = plugin<{ authentication: AuthenticationService }>(async (server, { authentication }) => {
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
        found.then((principal) => accept(request, principal)).then(() => done(), done);
        return;
      }
      accept(request, found);
    } catch (error) {
      done(error as Error);
      return;
    }
    done();
  });
});
