import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import Fastify, { type FastifyPluginAsync } from 'fastify';
import { notFound } from '../../answer/error-answer.ts';
import { PAGE_HEADERS } from '../console/page-headers.ts';
import { START_SCRIPT } from './start-script.ts';

const compressBrotli = promisify(zlib.brotliCompress);
const compressGzip = promisify(zlib.gzip);
/** For the names of scripts. */
const hashOf = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex').slice(0, 12);
/** Takes a tenth of a second; the best quality takes ten seconds and saves a tenth. */
const QUALITY = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } };

/** Scalar's viewer for OpenAPI documents. Its package gives the script only to a Fastify server. */
async function readViewer() {
  const { default: scalar } = await import('@scalar/fastify-api-reference');
  const server = Fastify();
  await server.register(scalar, { routePrefix: '/docs', configuration: { url: '/openapi.json' } });
  const { rawPayload: content } = await server.inject('/docs/js/scalar.js');
  await server.close();
  const [brotli, gzip] = await Promise.all([compressBrotli(content, QUALITY), compressGzip(content)]);
  return { content, brotli, gzip, hash: hashOf(content) };
}

/** The viewer adds styles to its page; scripts come from this server only, as everywhere. */
const POLICY = PAGE_HEADERS['content-security-policy'].replace("style-src 'self'", "style-src 'self' 'unsafe-inline'");
const FOR_EVER = 'public, max-age=31536000, immutable';
const START_HASH = hashOf(START_SCRIPT);
const JAVASCRIPT = 'text/javascript; charset=utf-8';

const page = (viewerHash: string): string => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Baobab API</title>
  </head>
  <body>
    <noscript>This page needs JavaScript. <a href="/openapi.json">openapi.json</a> has the same content.</noscript>
    <div id="reference"></div>
    <script src="/docs/start-${START_HASH}.js"></script>
    <script src="/docs/viewer-${viewerHash}.js"></script>
  </body>
</html>
`;

/** The API reference: a viewer for /openapi.json with requests that can be tried. */
export const referenceRoutes: FastifyPluginAsync = async (server) => {
  let script: ReturnType<typeof readViewer> | undefined;
  /** Read on first use: few servers need it. */
  const viewer = () => {
    script ??= readViewer();
    return script;
  };
  let document: string | undefined;

  server.get('/openapi.json', { schema: { hide: true } }, async (_request, reply) => {
    document ??= JSON.stringify(server.swagger());
    return reply.type('application/json; charset=utf-8').send(document);
  });

  server.get('/docs', { schema: { hide: true } }, async (_request, reply) => {
    const { hash } = await viewer();
    return reply
      .headers(PAGE_HEADERS)
      .header('content-security-policy', POLICY)
      .header('cache-control', 'no-cache')
      .type('text/html; charset=utf-8')
      .send(page(hash));
  });

  server.get<{ Params: { name: string } }>('/docs/:name', { schema: { hide: true } }, async (request, reply) => {
    const { content, brotli, gzip, hash } = await viewer();
    reply.header('x-content-type-options', 'nosniff').header('cache-control', FOR_EVER);
    if (request.params.name === `start-${START_HASH}.js`) return reply.type(JAVASCRIPT).send(START_SCRIPT);
    if (request.params.name !== `viewer-${hash}.js`) {
      reply.removeHeader('cache-control');
      return notFound(request, reply);
    }
    const accepted = request.headers['accept-encoding'] ?? '';
    reply.type(JAVASCRIPT).header('vary', 'Accept-Encoding');
    if (/\bbr\b/.test(accepted)) return reply.header('content-encoding', 'br').send(brotli);
    if (/\bgzip\b/.test(accepted)) return reply.header('content-encoding', 'gzip').send(gzip);
    return reply.send(content);
  });
};
