import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';

export interface MetricsAccessSettings {
  publicMetrics: boolean;
  /** A bearer token that every request for metrics must have. */
  metricsToken?: string | undefined;
}

const PROXY_HEADERS = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'];

const isLoopback = (address = ''): boolean => /^(::1$|127\.|::ffff:127\.)/.test(address);

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** Whether the request was sent by a program on this machine, not by a proxy on it that serves others. */
function isLocal({ headers, socket }: FastifyRequest): boolean {
  return isLoopback(socket.remoteAddress) && PROXY_HEADERS.every((name) => headers[name] === undefined);
}

/** Decides who may read `/metrics`: with a token only those who send it, otherwise programs on this machine or everyone. */
export function createMetricsAccess({ publicMetrics, metricsToken }: MetricsAccessSettings) {
  if (metricsToken === undefined) return (request: FastifyRequest) => publicMetrics || isLocal(request);
  const expected = digest(`Bearer ${metricsToken}`);
  return ({ headers }: FastifyRequest) => timingSafeEqual(digest(headers.authorization ?? ''), expected);
}
