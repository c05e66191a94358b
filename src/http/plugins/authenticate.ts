import plugin from 'fastify-plugin';
import type { Scope } from '../../domain/scopes.ts';
import type { AuthenticationService } from '../../services/authentication.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The scope that a key needs for this route. */
    scope?: Scope;
  }
}

/** Runs on the head of the request, before a byte of the body is read. */
export const authenticate = plugin<{ authentication: AuthenticationService }>(async (server, { authentication }) => {
  server.addHook('onRequest', async (request) => {
    const principal = await authentication.authenticate(request.headers.authorization);
    request.record.principal = principal;
    const { scope } = request.routeOptions.config;
    if (scope !== undefined) authentication.requireScope(principal, scope);
  });
});
