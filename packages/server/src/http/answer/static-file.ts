import { extname } from 'node:path';
import type { StaticFile } from '@baobab/core/ports/static-files.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** What the pages of this server may load and do: only what comes from it, and no code inside of pages. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "media-src 'self' blob:",
  "font-src 'self'",
  "connect-src 'self'",
  "manifest-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

export const PAGE_HEADERS = {
  'content-security-policy': POLICY,
  'permissions-policy': 'microphone=(self), camera=(), geolocation=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
};
/** For pages that are not ours alone, and have styles inside: scripts come from this server only, as everywhere. */
export const STYLED_PAGE_HEADERS = {
  ...PAGE_HEADERS,
  'content-security-policy': POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'"),
};

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.webp': 'image/webp',
  '.woff2': 'font/woff2',
  '.webmanifest': 'application/manifest+json',
};
/** The names of these files have a hash of their content. */
export const ASSETS = 'assets/';
const FOR_EVER = 'public, max-age=31536000, immutable';

/** Answers with a file of a page in the best encoding that the browser knows, or with 304 if it has the file. */
export function sendStaticFile(
  request: FastifyRequest,
  reply: FastifyReply,
  path: string,
  { content, tag, brotli, gzip }: StaticFile,
  headers: Readonly<Record<string, string>> = PAGE_HEADERS,
): FastifyReply {
  const quotedTag = `"${tag}"`;
  const accepted = request.headers['accept-encoding'] ?? '';
  reply
    .headers(headers)
    .header('cache-control', path.startsWith(ASSETS) ? FOR_EVER : 'no-cache')
    .header('vary', 'Accept-Encoding')
    .header('etag', quotedTag);
  if (request.headers['if-none-match'] === quotedTag) return reply.status(304).send();
  reply.type(TYPES[extname(path)] ?? 'application/octet-stream');
  if (brotli !== undefined && /\bbr\b/.test(accepted)) return reply.header('content-encoding', 'br').send(brotli);
  if (gzip !== undefined && /\bgzip\b/.test(accepted)) return reply.header('content-encoding', 'gzip').send(gzip);
  return reply.send(content);
}
