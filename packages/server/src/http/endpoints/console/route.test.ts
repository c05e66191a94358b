import type { StaticFile } from '@baobab/core/ports/static-files.ts';
import Fastify from 'fastify';
import { afterAll, describe, expect, it } from 'vitest';
import { createMetrics } from '../../../metrics/metrics.ts';
import { requestLog } from '../../plugins/request-log.ts';
import { endpointMethods } from '../../routes.ts';
import { consoleRoutes } from './route.ts';

const files = new Map<string, StaticFile>([
  ['index.html', { content: Buffer.from('page'), tag: 'a', brotli: Buffer.from('br'), gzip: Buffer.from('gz') }],
  ['assets/main-ABC.js', { content: Buffer.from('code'), tag: 'b' }],
]);

const server = Fastify();
await server.register(endpointMethods);
await server.register(requestLog, { metrics: createMetrics(), requests: { record() {} }, clock: { now: () => 0 } });
await server.register(consoleRoutes, { consoleBundle: { files: async () => files } });
afterAll(() => server.close());

const get = (url: string, headers: Record<string, string> = {}) => server.inject({ url, headers });

describe('the console', () => {
  it('is the same page at every address below it', async () => {
    for (const url of ['/console', '/console/', '/console/keys?open=key_1']) {
      const answer = await get(url);
      expect(answer.statusCode).toBe(200);
      expect(answer.body).toBe('page');
      expect(answer.headers).toMatchObject({ 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-cache' });
    }
  });

  it('runs no code inside of pages, loads nothing from elsewhere and refuses frames', async () => {
    const { headers } = await get('/console');
    const policy = String(headers['content-security-policy']);
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    expect(headers).toMatchObject({ 'x-frame-options': 'DENY', 'x-content-type-options': 'nosniff' });
  });

  it('sends what was compressed before, in the best way that the browser knows', async () => {
    const brotli = await get('/console', { 'accept-encoding': 'gzip, deflate, br' });
    expect([brotli.body, brotli.headers['content-encoding']]).toEqual(['br', 'br']);
    const gzip = await get('/console', { 'accept-encoding': 'gzip' });
    expect([gzip.body, gzip.headers['content-encoding']]).toEqual(['gz', 'gzip']);
  });

  it('lets browsers keep files with a hash in their name forever, and answers 304 for an unchanged page', async () => {
    const script = await get('/console/assets/main-ABC.js');
    expect(script.headers['cache-control']).toBe('public, max-age=31536000, immutable');
    expect(script.headers['content-type']).toBe('text/javascript; charset=utf-8');
    const { headers } = await get('/console');
    const again = await get('/console', { 'if-none-match': String(headers.etag) });
    expect([again.statusCode, again.body]).toEqual([304, '']);
  });

  it('answers 404 for a file that is not there', async () => {
    for (const url of ['/console/assets/main-OLD.js', '/console/assets/..%2findex.html']) {
      expect((await get(url)).statusCode).toBe(404);
    }
  });

  it('is where / leads browsers, and only them', async () => {
    const answer = await get('/', { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' });
    expect([answer.statusCode, answer.headers.location]).toEqual([302, '/console']);
    expect((await get('/', { accept: '*/*' })).statusCode).toBe(404);
  });
});
