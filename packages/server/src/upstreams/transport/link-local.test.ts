import type { LookupFunction } from 'node:net';
import { describe, expect, it } from 'vitest';
import { startLocalServer } from '../../catalog/adding/testing/local-server.ts';
import { createConnectionPool } from './connection-pool.ts';
import { exchange } from './exchange.ts';
import { isLinkLocal, LinkLocalError } from './link-local.ts';

it.each([
  ['169.254.169.254', true],
  ['169.253.255.255', false],
  ['fe80::1', true],
  ['fe80::1%eth0', true],
  ['[febf::1]', true],
  ['fec0::1', false],
  ['::ffff:169.254.0.1', true],
  ['127.0.0.1', false],
  ['10.0.0.1', false],
  ['example.org', false],
])('%s is link-local: %s', (host, expected) => {
  expect(isLinkLocal(host)).toBe(expected);
});

/** Like a name server of an attacker. */
const resolvesTo =
  (...ips: string[]): LookupFunction =>
  (_host, { all }, callback) => {
    const found = ips.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    if (all === true) callback(null, found);
    else callback(null, found[0]?.address ?? '', found[0]?.family);
  };

async function ask(origin: string, lookup: LookupFunction | undefined, allowLinkLocal = false) {
  const connections = createConnectionPool({ origin: new URL(origin), connectTimeoutMs: 200, lookup, allowLinkLocal });
  const limits = { maxBytes: () => 1_000, tooLong: () => new Error('too long') };
  try {
    return (await exchange(connections, { method: 'GET', path: '/', headers: {} }, limits).answer).status;
  } finally {
    connections.close();
  }
}

describe('a connection to an upstream', () => {
  it.each(['http', 'https'])(
    'is not made to a link-local address, nor to a name that resolves to one (%s)',
    async (protocol) => {
      await expect(ask(`${protocol}://169.254.169.254`, undefined)).rejects.toThrow(LinkLocalError);
      for (const ips of [['169.254.169.254'], ['127.0.0.1', 'fe80::1']]) {
        await expect(ask(`${protocol}://rebound.example`, resolvesTo(...ips))).rejects.toThrow(LinkLocalError);
      }
    },
  );

  it('is made to others, also by name', async () => {
    const server = await startLocalServer({ '/': {} });
    const named = server.address.replace('127.0.0.1', 'inside.example');
    expect(await ask(named, resolvesTo('127.0.0.1'))).toBe(200);
    server.close();
  });

  it('is tried where the configuration allows it', async () => {
    // Without the name of an interface the kernel refuses it at once, so nothing is sent.
    const failed = await ask('http://rebound.example:9', resolvesTo('fe80::1'), true).catch((error) => error);
    expect(failed).toBeInstanceOf(Error);
    expect(failed).not.toBeInstanceOf(LinkLocalError);
  });
});
