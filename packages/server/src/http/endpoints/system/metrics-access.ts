import { createHash, timingSafeEqual } from 'node:crypto';
import type { Secret } from '@baobab/core/ports/secret.ts';
import type { FastifyRequest } from 'fastify';

export interface MetricsAccessSettings {
  publicMetrics: boolean;
  /** A bearer token that every request for metrics must have. */
  metricsToken?: Secret | undefined;
}

/** Headers that proxies and content delivery networks add. */
const PROXY_HEADER =
  /^(forwarded|via|cdn-loop|true-client-ip|client-ip|fastly-client-ip|fly-client-ip|remote-addr|x-(forwarded|original|real|client|cluster|envoy|amzn|azure|akamai|vercel|appengine|cloud-trace)($|-).*|cf-.*)$/;

const isLoopback = (address = ''): boolean => /^(::1$|127\.|::ffff:127\.)/.test(address);

/** `localhost` or a loopback address, with or without a port. */
const isLoopbackHost = (host = ''): boolean => /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i.test(host);

const REREAD_PAUSE_MS = 1_000;

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/**
 * Whether a program on this machine sent the request for itself. Proxies on this machine usually keep the client's Host or add a
 * header. One that does neither cannot be recognised.
 */
function isLocal({ headers, socket }: FastifyRequest): boolean {
  return (
    isLoopback(socket.remoteAddress) &&
    isLoopbackHost(headers.host) &&
    !Object.keys(headers).some((name) => PROXY_HEADER.test(name))
  );
}

/** Decides who may read `/metrics`: with a token only those who send it, otherwise programs on this machine or everyone. */
export function createMetricsAccess({ publicMetrics, metricsToken }: MetricsAccessSettings) {
  if (metricsToken === undefined) return (request: FastifyRequest) => publicMetrics || isLocal(request);
  let rereadAt = 0;
  const isToken = (given: Buffer) => timingSafeEqual(given, digest(`Bearer ${metricsToken.value}`));
  return ({ headers }: FastifyRequest) => {
    const given = digest(headers.authorization ?? '');
    if (isToken(given)) return true;
    // It may have been replaced. Everybody can send a wrong one.
    if (performance.now() < rereadAt) return false;
    rereadAt = performance.now() + REREAD_PAUSE_MS;
    metricsToken.reread();
    return isToken(given);
  };
}
