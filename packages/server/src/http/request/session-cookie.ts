import { timingSafeEqual } from 'node:crypto';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';

const NAME = 'baobab_session';
/** Browsers accept this name only with Secure, without a domain and for all paths: no other host can set it. */
const SECURE_NAME = `__Host-${NAME}`;
const SHAPE = /^[\w-]{43}$/;
const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS']);

declare module 'fastify' {
  interface FastifyInstance {
    /** Browsers reach this server over HTTPS, whatever a proxy in between says of the connection. */
    isPublicOverHttps: boolean;
  }
}

const isSecure = ({ protocol, server }: FastifyRequest): boolean => protocol === 'https' || server.isPublicOverHttps;

/** The secret of the session that the request belongs to. */
export function sessionSecret(request: FastifyRequest): string | undefined {
  const name = isSecure(request) ? SECURE_NAME : NAME;
  for (const pair of request.headers.cookie?.split(';') ?? []) {
    const [key = '', value = ''] = pair.trim().split('=');
    if (key === name && SHAPE.test(value)) return value;
  }
  return undefined;
}

/** Undefined: removes the cookie. */
export function setSessionCookie(reply: FastifyReply, cookie: { secret: string; maxAgeMs: number } | undefined): void {
  const secure = isSecure(reply.request);
  const seconds = cookie === undefined ? 0 : Math.ceil(cookie.maxAgeMs / 1000);
  const parts = [
    `${secure ? SECURE_NAME : NAME}=${cookie?.secret ?? ''}`,
    'Path=/',
    `Max-Age=${seconds}`,
    'HttpOnly',
    'SameSite=Strict',
    ...(secure ? ['Secure'] : []),
  ];
  reply.header('set-cookie', parts.join('; '));
}

/**
 * Refuses requests that another site made a browser send with the cookie. SameSite=Strict keeps most of them away; other ports and
 * subdomains of the same host are the same site, so a token is needed as well.
 */
export function checkSameOrigin({ method, headers }: FastifyRequest, token: string): void {
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin' && site !== 'none') throw errors.csrfTokenInvalid();
  if (SAFE_METHODS.has(method)) return;
  const sent = headers['x-baobab-csrf'];
  if (typeof sent !== 'string' || sent.length !== token.length) throw errors.csrfTokenInvalid();
  if (!timingSafeEqual(Buffer.from(sent, 'latin1'), Buffer.from(token, 'latin1'))) throw errors.csrfTokenInvalid();
}
