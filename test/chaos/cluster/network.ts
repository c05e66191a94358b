import { spawnSync } from 'node:child_process';

export const PARTS = ['postgres', 'redis', 's3', 'engine'] as const;
export type Part = (typeof PARTS)[number];

/** Where one replica runs and how it reaches the parts. */
export interface Site {
  replicaHost: string;
  /** The address of this machine under which the replica reaches a part. */
  hostOf(part: Part): string;
  /** Words before the command of the replica. */
  prefix: readonly string[];
  /** Drops all packets from the replica to the part. Undefined: the link itself must be cut. */
  setCut: ((part: Part, isCut: boolean) => void) | undefined;
  close(): void;
}

const LOCALHOST: Site = {
  replicaHost: '127.0.0.1',
  hostOf: () => '127.0.0.1',
  prefix: [],
  setCut: undefined,
  close: () => {},
};

function ip(...args: string[]): void {
  const { status, stderr } = spawnSync('ip', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`ip ${args.join(' ')}: ${stderr}`);
}

/** True where this user may create network namespaces. */
export function hasNamespaces(): boolean {
  if (process.getuid?.() !== 0) return false;
  const name = `baobab-try-${process.pid}`;
  if (spawnSync('ip', ['netns', 'add', name]).status !== 0) return false;
  return spawnSync('ip', ['netns', 'delete', name]).status === 0;
}

/** A hardware address that no interface has: what is sent to it is lost without an error. */
const NO_ONE = '02:00:00:00:00:99';

/** Gives the replica a network namespace of its own, with one address of this machine for each part. */
function namespaceSite(index: number): Site {
  const name = `baobab-${process.pid}-${index}`;
  const outside = `bb${process.pid}-${index}`;
  const subnet = `10.${100 + (process.pid % 100)}.${index}`;
  const hostOf = (part: Part) => `${subnet}.${PARTS.indexOf(part) + 1}`;
  const replicaHost = `${subnet}.100`;
  ip('netns', 'add', name);
  const close = () => void spawnSync('ip', ['netns', 'delete', name]);
  process.once('exit', close);
  ip('link', 'add', outside, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
  for (const part of PARTS) ip('address', 'add', `${hostOf(part)}/24`, 'dev', outside);
  ip('link', 'set', outside, 'up');
  ip('-n', name, 'address', 'add', `${replicaHost}/24`, 'dev', 'eth0');
  ip('-n', name, 'link', 'set', 'eth0', 'up');
  ip('-n', name, 'link', 'set', 'lo', 'up');
  return {
    replicaHost,
    hostOf,
    prefix: ['ip', 'netns', 'exec', name],
    setCut(part, isCut) {
      if (isCut) ip('-n', name, 'neigh', 'replace', hostOf(part), 'lladdr', NO_ONE, 'dev', 'eth0', 'nud', 'permanent');
      else ip('-n', name, 'neigh', 'delete', hostOf(part), 'dev', 'eth0');
    },
    close() {
      process.removeListener('exit', close);
      close();
    },
  };
}

export const createSites = (count: number, withNamespaces: boolean): Site[] =>
  Array.from({ length: count }, (_, index) => (withNamespaces ? namespaceSite(index + 1) : LOCALHOST));
