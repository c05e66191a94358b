import type { ResolvedConfig } from '../config/load.ts';

const EVERY_INTERFACE: readonly string[] = ['0.0.0.0', '::'];

/** Where a client on this machine finds the server. */
export function localAddress({ host, port, tls }: ResolvedConfig): string {
  const name = EVERY_INTERFACE.includes(host) ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host;
  return `${tls.cert === undefined ? 'http' : 'https'}://${name}:${port}`;
}
