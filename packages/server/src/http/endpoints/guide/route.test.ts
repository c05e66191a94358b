import type { StaticFile } from '@baobab/core/ports/static-files.ts';
import Fastify from 'fastify';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { createMetrics } from '../../../metrics/metrics.ts';
import { requestLog } from '../../plugins/request-log.ts';
import { endpointMethods } from '../../routes.ts';
import { referenceRoutes } from '../reference/route.ts';
import { guideRoutes } from './route.ts';

const fileOf = (text: string): StaticFile => ({ content: Buffer.from(text), tag: text });
const BUILT = new Map([
  ['index.html', fileOf('index')],
  ['api.html', fileOf('api')],
  ['models/chat-mini.html', fileOf('card')],
  ['assets/picture.abc.png', fileOf('picture')],
]);
let files: ReadonlyMap<string, StaticFile>;
beforeEach(() => {
  files = BUILT;
});

const server = Fastify();
await server.register(endpointMethods);
await server.register(requestLog, { metrics: createMetrics(), requests: { record() {} }, clock: { now: () => 0 } });
await server.register(referenceRoutes);
await server.register(guideRoutes, { guide: { files: async () => files } });
afterAll(() => server.close());

const get = (url: string) => server.inject({ url });

describe('the documentation', () => {
  it('has its pages at addresses without an ending, beside the reference', async () => {
    for (const [url, body] of [
      ['/docs/guide/', 'index'],
      ['/docs/guide/api', 'api'],
      ['/docs/guide/api.html', 'api'],
      ['/docs/guide/models/chat-mini', 'card'],
    ] as const) {
      const answer = await get(url);
      expect([answer.statusCode, answer.body]).toEqual([200, body]);
      expect(answer.headers).toMatchObject({ 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-cache' });
    }
    expect((await get('/docs/guide')).headers.location).toBe('/docs/guide/');
  });

  it('runs no code inside of pages', async () => {
    const policy = String((await get('/docs/guide/api')).headers['content-security-policy']);
    expect(policy).toContain("script-src 'self';");
    expect(policy).toContain("default-src 'none'");
  });

  it('lets browsers keep files with a hash in their name forever, and answers 304 for what they have', async () => {
    const picture = await get('/docs/guide/assets/picture.abc.png');
    expect(picture.headers).toMatchObject({
      'content-type': 'image/png',
      'cache-control': 'public, max-age=31536000, immutable',
    });
    const again = await server.inject({ url: '/docs/guide/api', headers: { 'if-none-match': '"api"' } });
    expect([again.statusCode, again.body]).toEqual([304, '']);
  });

  it('answers 404 for what is not in it, with its own page where it has one', async () => {
    for (const path of ['other', 'models', 'models/', '../../package.json', '..%2f..%2fpackage.json', '%2e%2e/api']) {
      expect((await get(`/docs/guide/${path}`)).statusCode).toBe(404);
    }
    files = new Map([...BUILT, ['404.html', fileOf('lost')]]);
    const page = await get('/docs/guide/other');
    expect([page.statusCode, page.body, page.headers['content-type']]).toEqual([
      404,
      'lost',
      'text/html; charset=utf-8',
    ]);
    expect((await get('/docs/guide/assets/other.js')).headers['content-type']).toContain('application/json');
  });

  it('says how to build it where it is not built', async () => {
    files = new Map();
    const answer = await get('/docs/guide/api');
    expect(answer.statusCode).toBe(404);
    expect(answer.body).toContain('npm run docs');
  });
});
