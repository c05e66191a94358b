import plugin from 'fastify-plugin';

export interface CorsOptions {
  /** Such as `https://app.example`; `*` allows every page. */
  origins: readonly string[];
}

const METHODS = 'GET, POST, DELETE';
/** What pages may read of an answer besides its body. */
const EXPOSED = [
  ...['x-request-id', 'x-served-model', 'x-budget-warning', 'retry-after', 'idempotent-replayed', 'service-deprecated'],
  'x-truncated-inputs',
  ...['requests', 'tokens'].flatMap((kind) =>
    ['limit', 'remaining', 'reset'].map((what) => `x-ratelimit-${what}-${kind}`),
  ),
].join(', ');
const PREFLIGHT_SECONDS = '600';

/** Lets pages of other origins call the API from a browser. Cookies play no part: a page must know a key. */
export const cors = plugin<CorsOptions>(async (server, { origins }) => {
  if (origins.length === 0) return;
  const isAllowed = (origin: string) => origins.includes('*') || origins.includes(origin);
  server.addHook('onRequest', (request, reply, done) => {
    const { origin } = request.headers;
    reply.header('vary', 'Origin');
    if (origin === undefined || !isAllowed(origin)) {
      done();
      return;
    }
    reply.header('access-control-allow-origin', origin).header('access-control-expose-headers', EXPOSED);
    if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined) {
      done();
      return;
    }
    // A preflight has no key, so it is answered before authentication.
    const wanted = request.headers['access-control-request-headers'];
    if (wanted !== undefined) reply.header('access-control-allow-headers', wanted);
    reply.header('access-control-allow-methods', METHODS).header('access-control-max-age', PREFLIGHT_SECONDS);
    reply.status(204).send();
  });
});
