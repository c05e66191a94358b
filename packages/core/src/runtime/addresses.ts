import { BlockList, isIP } from 'node:net';

export interface AddressList {
  includes(address: string): boolean;
}

interface Range {
  address: string;
  family: 'ipv4' | 'ipv6';
  /** Bits that must match. */
  prefix: number;
}

function parseRange(text: string): Range | undefined {
  const [address = '', prefix, ...more] = text.split('/');
  const version = isIP(address);
  // A zone such as %eth0 has no meaning on another machine.
  if (version === 0 || more.length > 0 || address.includes('%')) return undefined;
  const bits = version === 4 ? 32 : 128;
  if (prefix !== undefined && !/^(0|[1-9]\d{0,2})$/.test(prefix)) return undefined;
  const length = prefix === undefined ? bits : Number(prefix);
  return length > bits ? undefined : { address, family: version === 4 ? 'ipv4' : 'ipv6', prefix: length };
}

/** Whether a text is an IP address or a range such as `10.0.0.0/8` or `2001:db8::/32`. */
export const isAddressRange = (text: string): boolean => parseRange(text) !== undefined;

/** IPv4 ranges also include IPv4 addresses that are written as IPv6 ones, as sockets report them. */
export function createAddressList(ranges: readonly string[]): AddressList {
  const list = new BlockList();
  for (const text of ranges) {
    const range = parseRange(text);
    if (range === undefined) throw new RangeError(`'${text}' is not an IP address or range`);
    list.addSubnet(range.address, range.prefix, range.family);
  }
  return {
    includes(address) {
      const version = isIP(address);
      return version !== 0 && list.check(address, version === 4 ? 'ipv4' : 'ipv6');
    },
  };
}
