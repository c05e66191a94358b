import { lookup, resolveSrv } from 'node:dns/promises';
import type { LookupFunction } from 'node:net';

/** How one configured address becomes several upstreams: every address of its host, or the targets of its SRV record. */
export type Discovery = 'dns' | 'srv';

/** One server behind a configured address. */
export interface Endpoint {
  /** Host and port. */
  readonly address: string;
  readonly origin: URL;
  /** Connects to this IP address, while the origin's name is used for TLS and the Host header. */
  readonly ip?: string | undefined;
  /** From an SRV record. */
  readonly weight?: number | undefined;
}

export interface Resolver {
  /** Every IP address of a host, as programs on this machine see it. */
  addresses(host: string): Promise<string[]>;
  services(name: string): Promise<{ name: string; port: number; priority: number; weight: number }[]>;
}

export const systemResolver: Resolver = {
  addresses: async (host) => (await lookup(host, { all: true })).map(({ address }) => address),
  services: resolveSrv,
};

/** A `lookup` for sockets that knows one answer. */
export function fixedLookup(ip: string): LookupFunction {
  const family = ip.includes(':') ? 6 : 4;
  return (_host, options, callback) => {
    if (options.all === true) callback(null, [{ address: ip, family }]);
    else callback(null, ip, family);
  };
}

export async function findEndpoints(origin: URL, discovery: Discovery, resolver: Resolver): Promise<Endpoint[]> {
  const port = origin.port || (origin.protocol === 'https:' ? '443' : '80');
  if (discovery === 'dns') {
    const ips = [...new Set(await resolver.addresses(origin.hostname))].toSorted();
    return ips.map((ip) => ({ address: `${ip.includes(':') ? `[${ip}]` : ip}:${port}`, origin, ip }));
  }
  const services = await resolver.services(origin.hostname);
  // Targets of the lowest priority are the ones to use; the others stand by.
  const first = Math.min(...services.map(({ priority }) => priority));
  return services
    .filter(({ priority }) => priority === first)
    .map(({ name, port: target, weight }) => {
      const own = new URL(origin);
      own.hostname = name;
      own.port = String(target);
      return { address: `${name}:${target}`, origin: own, ...(weight > 0 && { weight }) };
    })
    .toSorted((a, b) => (a.address < b.address ? -1 : 1));
}
