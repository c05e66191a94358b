import Fastify from 'fastify';
import { describe, expect, it } from 'vitest';
import { cors } from './cors.ts';

async function serverWith(origins: string[]) {
  const server = Fastify();
  await server.register(cors, { origins });
  await server.register(
    async (api) => {
      api.addHook('onRequest', async (request, reply) => {
        if (request.headers.authorization === undefined) return reply.status(401).send();
        return undefined;
      });
      api.get('/models', async () => ({}));
    },
    { prefix: '/v1' },
  );
  return server;
}

const preflight = (origin: string) => ({
  method: 'OPTIONS' as const,
  url: '/v1/models',
  headers: {
    origin,
    'access-control-request-method': 'GET',
    'access-control-request-headers': 'authorization, x-stainless-os',
  },
});

describe('a page of another origin', () => {
  it('gets its preflight answered without a key', async () => {
    const server = await serverWith(['https://app.example']);
    const { statusCode, headers } = await server.inject(preflight('https://app.example'));
    expect(statusCode).toBe(204);
    expect(headers).toMatchObject({
      'access-control-allow-origin': 'https://app.example',
      'access-control-allow-methods': 'GET, POST, DELETE',
      'access-control-allow-headers': 'authorization, x-stainless-os',
      vary: 'Origin',
    });
  });

  it('may read answers and errors', async () => {
    const server = await serverWith(['https://app.example']);
    const headers = { origin: 'https://app.example', authorization: 'Bearer key' };
    const answer = await server.inject({ url: '/v1/models', headers });
    expect(answer.headers['access-control-allow-origin']).toBe('https://app.example');
    expect(answer.headers['access-control-expose-headers']).toContain('x-request-id');
    const refused = await server.inject({ url: '/v1/models', headers: { origin: 'https://app.example' } });
    expect([refused.statusCode, refused.headers['access-control-allow-origin']]).toEqual([401, 'https://app.example']);
  });

  it('gets nothing when its origin is not listed', async () => {
    const server = await serverWith(['https://app.example']);
    const { statusCode, headers } = await server.inject(preflight('https://other.example'));
    expect(statusCode).not.toBe(204);
    expect(headers['access-control-allow-origin']).toBeUndefined();
  });

  it('gets nothing by default', async () => {
    const server = await serverWith([]);
    const { headers } = await server.inject({ url: '/v1/models', headers: { origin: 'https://app.example' } });
    expect(headers.vary).toBeUndefined();
    expect(headers['access-control-allow-origin']).toBeUndefined();
  });
});
