import { createHash } from 'node:crypto';
import { extname } from 'node:path';
import type { ConsoleBundle, ConsoleFile } from '@baobab/core/ports/console-bundle.ts';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { notFound } from '../../answer/error-answer.ts';
import { PAGE_HEADERS } from './page-headers.ts';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
  '.webmanifest': 'application/manifest+json',
};
/** The names of these files have a hash of their content. */
const ASSETS = 'assets/';
const FOR_EVER = 'public, max-age=31536000, immutable';

function sendFile(request: FastifyRequest, reply: FastifyReply, path: string, file: ConsoleFile): FastifyReply {
  const isAsset = path.startsWith(ASSETS);
  const accepted = request.headers['accept-encoding'] ?? '';
  const tag = `"${createHash('sha256').update(file.content).digest('base64url').slice(0, 22)}"`;
  reply
    .headers(PAGE_HEADERS)
    .header('cache-control', isAsset ? FOR_EVER : 'no-cache')
    .header('vary', 'Accept-Encoding')
    .header('etag', tag);
  if (request.headers['if-none-match'] === tag) return reply.status(304).send();
  reply.type(TYPES[extname(path)] ?? 'application/octet-stream');
  if (file.brotli !== undefined && /\bbr\b/.test(accepted)) {
    return reply.header('content-encoding', 'br').send(file.brotli);
  }
  if (file.gzip !== undefined && /\bgzip\b/.test(accepted)) {
    return reply.header('content-encoding', 'gzip').send(file.gzip);
  }
  return reply.send(file.content);
}

/** The console: its page for every address below /console, and the files that it loads. */
export const consoleRoutes: FastifyPluginAsync<{ consoleBundle: ConsoleBundle }> = async (
  server,
  { consoleBundle },
) => {
  const hide = { schema: { hide: true } };

  server.get('/', hide, async (request, reply) => {
    // Claude Code asks first whether a server is here.
    if (request.method === 'HEAD') return reply.send();
    return /\btext\/html\b/.test(request.headers.accept ?? '') ? reply.redirect('/console') : notFound(request, reply);
  });

  const send = async (request: FastifyRequest, reply: FastifyReply, path: string) => {
    const files = await consoleBundle.files();
    const file = files.get(path);
    return file === undefined ? notFound(request, reply) : sendFile(request, reply, path, file);
  };
  server.get('/console', hide, (request, reply) => send(request, reply, 'index.html'));
  server.get<{ Params: { '*': string } }>('/console/*', hide, (request, reply) => {
    const path = request.params['*'];
    // Other addresses are views of the page.
    return send(request, reply, path.startsWith(ASSETS) ? path : 'index.html');
  });
};
