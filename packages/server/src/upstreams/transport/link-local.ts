import { lookup as systemLookup } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';

/**
 * Addresses that only this machine's own network segment answers. Clouds give out the credentials of the machine there. BlockList also
 * finds IPv4 addresses in IPv6 notation.
 */
const blocked = new BlockList();
blocked.addSubnet('169.254.0.0', 16);
blocked.addSubnet('fe80::', 10, 'ipv6');
// Metadata services outside these ranges: of AWS by IPv6, of Alibaba and of Oracle.
blocked.addAddress('fd00:ec2::254', 'ipv6');
blocked.addAddress('100.100.100.200');
blocked.addAddress('192.0.0.192');

export class LinkLocalError extends Error {
  constructor(host: string) {
    super(`${host} is a link-local address or a metadata service, which only 'allow_link_local' permits`);
  }
}

export const isLinkLocal = (host: string): boolean => {
  const [ip = ''] = host.replace(/^\[|\]$/g, '').split('%');
  const family = isIP(ip);
  return family !== 0 && blocked.check(ip, family === 6 ? 'ipv6' : 'ipv4');
};

/** Fails for a host with such an address. Sockets ask it when they connect, so there is no time to change the name's address in between. */
export const withoutLinkLocal =
  (inner: LookupFunction = systemLookup): LookupFunction =>
  (host, options, callback) =>
    inner(host, options, (error, address, family) => {
      const found = Array.isArray(address) ? address.map((each) => each.address) : [address];
      if (error === null && found.some(isLinkLocal)) callback(new LinkLocalError(host), '', 0);
      else callback(error, address, family);
    });
