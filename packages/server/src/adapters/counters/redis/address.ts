import { readFileSync } from 'node:fs';
import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';

export interface HostAndPort {
  host: string;
  port: number;
}

/** Where Redis is, taken from the setting `counters`. */
export interface RedisAddress {
  /** One server, or the sentinels that know it. */
  hosts: readonly HostAndPort[];
  /** The name of the primary that the sentinels watch. Absent without sentinels. */
  primary?: string | undefined;
  tls?: { ca?: string | undefined } | undefined;
  username?: string | undefined;
  password?: string | undefined;
  /** Password of the sentinels, where it differs. */
  sentinelPassword?: string | undefined;
  database: number;
}

const FORM = /^(rediss?)(\+sentinel)?:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^/?@]+)(\/[^?]*)?(?:\?(.*))?$/;
const HOST = /^(\[[\da-f:.]+\]|[\w.-]+)(?::(\d{1,5}))?$/i;
const PORTS = { server: 6379, sentinel: 26_379 };

/** Undefined for other addresses. */
export function parseRedisAddress(text: string): RedisAddress | undefined {
  const [, scheme, sentinel, username, password, list = '', path = '', query = ''] = FORM.exec(text) ?? [];
  if (scheme === undefined) return undefined;
  const hosts = list.split(',').map((item) => hostOf(item, sentinel === undefined ? PORTS.server : PORTS.sentinel));
  const segments = path.split('/').filter((segment) => segment !== '');
  const primary = sentinel === undefined ? undefined : segments.shift();
  const [database = '0', ...others] = segments;
  const isWhole = hosts.every((host) => host !== undefined) && others.length === 0 && /^\d{1,3}$/.test(database);
  if (!isWhole || (sentinel === undefined ? hosts.length > 1 : primary === undefined)) return undefined;
  const options = new URLSearchParams(query);
  const caPath = options.get('ca');
  return {
    hosts,
    primary,
    database: Number(database),
    username: decoded(username),
    password: decoded(password),
    sentinelPassword: options.get('sentinel_password') ?? undefined,
    tls: scheme === 'rediss' ? { ca: caPath === null ? undefined : readAuthority(caPath) } : undefined,
  };
}

function hostOf(text: string, defaultPort: number): HostAndPort | undefined {
  const [, host, port] = HOST.exec(text) ?? [];
  return host === undefined ? undefined : { host: host.replace(/^\[|\]$/g, ''), port: Number(port ?? defaultPort) };
}

/** Leaves a password alone whose percent sign does not start an escape. */
function decoded(text: string | undefined): string | undefined {
  if (text === undefined || text === '') return undefined;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function readAuthority(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new StoreUnavailableError(
      `The certificate authority ${path} of counters cannot be read: ${systemReason(cause)}.`,
      {
        cause,
      },
    );
  }
}

/** For messages: without user and password. */
export const placeOf = ({ hosts, primary }: RedisAddress): string =>
  hosts.map(({ host, port }) => `${host}:${port}`).join(',') + (primary === undefined ? '' : ` (primary ${primary})`);
