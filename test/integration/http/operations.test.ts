import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODEL_ENDPOINTS, OPERATIONS } from '../../../packages/core/src/domain/operations.ts';
import { INFERENCE_SCOPES, SCOPES } from '../../../packages/core/src/domain/scopes.ts';
import { type HttpBed, startHttpBed } from './bed.ts';

const ROOT = join(import.meta.dirname, '../../..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

let bed: HttpBed;
let documented: { method: string; path: string; scope: string }[];
beforeAll(async () => {
  bed = await startHttpBed();
  const { paths } = JSON.parse(await (await bed.fetch('/openapi.json', { key: null })).text()) as {
    paths: Record<string, Record<string, { security?: { key?: string[] }[] }>>;
  };
  documented = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { security }]) => ({
      method,
      path,
      scope: security?.[0]?.key?.join() ?? 'none',
    })),
  );
});
afterAll(() => bed[Symbol.asyncDispose]());

/** The paths of each scope in the table of docs/api.md. The scope `prompts` is about a field of an answer. */
const promised = [...read('docs/api.md').matchAll(/^\| (?:`(\w+)`|none) \| (.*) \|$/gm)]
  .flatMap(([, scope = 'none', text = '']) =>
    [...text.matchAll(/`(?:GET )?(\/v\d\/[^`]*?)(?:\/?\*)?`/g)].map(([, path = '']) => ({ scope, path })),
  )
  .filter(({ scope }) => scope !== 'prompts');

describe('the table of operations', () => {
  it('has an endpoint for each of them', () => {
    const routes = globSync('packages/server/src/http/endpoints/**/*.ts', { cwd: ROOT }).map(read).join('\n');
    const named = [...routes.matchAll(/\boperation: '([\w.]+)'/g)].map(([, name]) => name);
    expect(named.toSorted()).toEqual(Object.keys(OPERATIONS).toSorted());
  });

  it('is the one of docs/api.md: the longest path there has the scope of the endpoint', () => {
    expect(promised.length).toBeGreaterThan(20);
    for (const { path, scope } of documented.filter(({ path: each }) => each.startsWith('/v'))) {
      if (path === '/v1/sessions') continue;
      const covering = promised.filter(({ path: each }) => path === each || path.startsWith(`${each}/`));
      const longest = Math.max(...covering.map(({ path: each }) => each.length));
      const scopes = covering.filter(({ path: each }) => each.length === longest).map((each) => each.scope);
      expect(scopes, path).toEqual([scope]);
    }
  });

  it('names every path where a model runs', () => {
    const running = documented.filter(
      ({ method, path, scope }) =>
        method === 'post' && INFERENCE_SCOPES.some((each) => each === scope) && !/\{|conversations|_tokens$/.test(path),
    );
    expect(running.map(({ path }) => path).toSorted()).toEqual(Object.keys(MODEL_ENDPOINTS).toSorted());
  });

  it('gives every scope a line of docs/api.md', () => {
    const lines = [...read('docs/api.md').matchAll(/^\| `(\w+)` \|/gm)].map(([, scope]) => scope);
    expect(SCOPES.filter((scope) => !lines.includes(scope))).toEqual([]);
  });
});

it('refuses a route without an operation behind authentication', async () => {
  const { default: Fastify } = await import('fastify');
  const { authenticate } = await import('../../../packages/server/src/http/plugins/authenticate.ts');
  const server = Fastify();
  await server.register(authenticate, {} as never);
  expect(() => server.get('/v1/open', () => 'unchecked')).toThrow('the route /v1/open names no operation');
});
