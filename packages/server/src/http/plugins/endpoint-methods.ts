import plugin from 'fastify-plugin';

declare module 'fastify' {
  interface FastifyInstance {
    /** The methods of the endpoint at a path, which may have ids in it. Empty when there is no such path. */
    methodsOf(path: string): string[];
  }
}

interface Endpoint {
  segments: string[];
  methods: string[];
}

/** `:id` stands for one segment, `*` at the end for one or more. */
function matches(pattern: readonly string[], path: readonly string[]): boolean {
  const isOpen = pattern.at(-1) === '*';
  if (isOpen ? path.length < pattern.length : path.length !== pattern.length) return false;
  return pattern.every((part, index) => part === '*' || (part[0] === ':' ? path[index] !== '' : part === path[index]));
}

/** Fastify finds routes by their patterns only, and a request has a path. To be registered before the routes. */
export const endpointMethods = plugin(async (server) => {
  const endpoints: Endpoint[] = [];
  server.addHook('onRoute', ({ url, method }) => {
    endpoints.push({ segments: url.split('/'), methods: [method].flat() });
  });
  server.decorate('methodsOf', (path) => {
    const segments = path.split('/');
    return [...new Set(endpoints.filter((each) => matches(each.segments, segments)).flatMap(({ methods }) => methods))];
  });
});
