import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../fixtures/free-port.ts';

export interface Balancer {
  readonly address: string;
  /** Ends it at once, with all connections of clients. */
  stop(): Promise<void>;
  /** On the same port. */
  start(): Promise<void>;
}

const PROGRAM = process.env.BAOBAB_TEST_HAPROXY ?? 'haproxy';

/** Why there is no load balancer; undefined if there is one. */
export const balancerMissing: string | undefined =
  spawnSync(PROGRAM, ['-v']).status === 0
    ? undefined
    : 'there is no haproxy (Debian: apt install haproxy, macOS: brew install haproxy), and BAOBAB_TEST_HAPROXY does not name one';

/** As in deploy/compose/haproxy.cfg. */
const configuration = (port: number, replicas: readonly { host: string; port: number }[]): string => `
global
    maxconn 2000
defaults
    mode http
    timeout connect 3s
    timeout client 75s
    timeout http-request 15s
    timeout check 3s
    timeout server 600s
    option forwardfor
    option redispatch
    retries 2
    retry-on conn-failure
frontend public
    bind 127.0.0.1:${port}
    default_backend replicas
backend replicas
    balance leastconn
    option httpchk GET /readyz
    default-server check inter 1s fall 2 rise 1
${replicas.map((replica, index) => `    server replica-${index + 1} ${replica.host}:${replica.port}`).join('\n')}
`;

export async function startBalancer(
  directory: string,
  replicas: readonly { host: string; port: number }[],
): Promise<Balancer> {
  const port = await freePort();
  const file = join(directory, 'haproxy.cfg');
  await writeFile(file, configuration(port, replicas));
  const address = `http://127.0.0.1:${port}`;
  let child: ChildProcess | undefined;
  process.once('exit', () => child?.kill('SIGKILL'));
  async function start(): Promise<void> {
    const started = spawn(PROGRAM, ['-db', '-f', file], { stdio: ['ignore', 'ignore', 'ignore'] });
    child = started;
    while ((await fetch(address).catch(() => undefined)) === undefined) {
      if (started.exitCode !== null) throw new Error(`haproxy ended with ${started.exitCode}`);
    }
  }
  await start();
  return {
    address,
    start,
    async stop() {
      if (child === undefined) return;
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
  };
}
