import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { freePort } from '../fixtures/free-port.ts';

const DEPLOY = join(import.meta.dirname, '../../deploy');

export interface Proxy {
  address: string;
  /** Before a server gets SIGTERM, and when it is ready again. Proxies that ask /readyz need neither. */
  remove(host: string): Promise<void>;
  restore(): Promise<void>;
  stop(): Promise<void>;
}

/** PEM files of what clients connect to. */
export interface ProxyCertificate {
  cert: string;
  key: string;
}

export interface ProxyKind {
  name: string;
  /** Why it cannot be started; undefined if it can. */
  missing: string | undefined;
  /** With the recipe of deploy/, at other addresses; with HTTPS as the recipe says, if there is a certificate. */
  start(directory: string, hosts: readonly string[], certificate?: ProxyCertificate): Promise<Proxy>;
}

const missing = (program: string, ...version: string[]): string | undefined =>
  spawnSync(program, version).status === 0 ? undefined : `there is no ${program} (Debian: apt install ${program})`;

/** Replaces each text, which must be there: a recipe that has changed must not be run in part. */
function replaced(recipe: string, changes: readonly (readonly [from: string, to: string])[]): string {
  return changes.reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`the recipe has no '${from}'`);
    return text.replaceAll(from, to);
  }, recipe);
}

interface Program {
  /** For its log. */
  directory: string;
  port: number;
  isSecure: boolean;
  program: string;
  args: readonly string[];
}

const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });

async function running({ directory, port, isSecure, program, args }: Program): Promise<[string, ChildProcess]> {
  const logFile = join(directory, `${program}.log`);
  const log = openSync(logFile, 'a');
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', log] });
  closeSync(log);
  // nginx would leave its workers behind when it is killed.
  const kill = () => child.kill('SIGTERM');
  process.once('exit', kill);
  child.once('exit', () => process.removeListener('exit', kill));
  const address = `${isSecure ? 'https' : 'http'}://localhost:${port}`;
  while (!(await accepts(port))) {
    if (child.exitCode !== null) throw new Error(`${program} ended: ${await readFile(logFile, 'utf8')}`);
  }
  return [address, child];
}

async function ended(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}

const nothing = async () => {};

const haproxy: ProxyKind = {
  name: 'haproxy',
  missing: missing('haproxy', '-v'),
  async start(directory, [first = '', second = ''], certificate) {
    const isSecure = certificate !== undefined;
    const port = await freePort();
    const recipe = await readFile(join(DEPLOY, 'compose/haproxy.cfg'), 'utf8');
    const file = join(directory, 'haproxy.cfg');
    const pem = join(directory, 'certificate.pem');
    if (isSecure) {
      await writeFile(pem, `${await readFile(certificate.cert, 'utf8')}${await readFile(certificate.key, 'utf8')}`);
    }
    const changes = [
      ['    bind :8080', `    bind 127.0.0.1:${port}${isSecure ? ` ssl crt ${pem}` : ''}`],
      ['replica-1:8080', first],
      ['replica-2:8080', second],
      // More than tests may open.
      ['maxconn 20000', 'maxconn 2000'],
      // Names of containers.
      [' resolvers docker init-addr none', ''],
    ] as const;
    await writeFile(file, replaced(recipe, changes).replace(/^resolvers docker\n(?: .*\n)*/m, ''));
    const [address, child] = await running({
      directory,
      port,
      isSecure,
      program: 'haproxy',
      args: ['-db', '-f', file],
    });
    return { address, remove: nothing, restore: nothing, stop: () => ended(child) };
  },
};

const caddy: ProxyKind = {
  name: 'caddy',
  missing: missing('caddy', 'version'),
  async start(directory, [first = '', second = ''], certificate) {
    const isSecure = certificate !== undefined;
    const port = await freePort();
    const recipe = await readFile(join(DEPLOY, 'proxies/Caddyfile'), 'utf8');
    const file = join(directory, 'Caddyfile');
    const changes = [
      // With a name, Caddy fetches a certificate for it; here it is given.
      [':80 {', isSecure ? `https://localhost:${port} {\n\ttls ${certificate.cert} ${certificate.key}` : `:${port} {`],
      ['10.0.0.11:8080', first],
      ['10.0.0.12:8080', second],
    ] as const;
    // Neither its API nor its storage: another Caddy may run here.
    await writeFile(
      file,
      `{\n\tadmin off\n\tauto_https disable_redirects\n\tstorage file_system ${directory}\n}\n${replaced(recipe, changes)}`,
    );
    const [address, child] = await running({
      ...{ directory, port, isSecure, program: 'caddy' },
      args: ['run', '--adapter', 'caddyfile', '--config', file],
    });
    return { address, remove: nothing, restore: nothing, stop: () => ended(child) };
  },
};

/** `isToldFirst`: servers are marked as down before they stop. */
const nginx = (name: string, isToldFirst: boolean): ProxyKind => ({
  name,
  missing: missing('nginx', '-v'),
  async start(directory, [first = '', second = ''], certificate) {
    const isSecure = certificate !== undefined;
    const port = await freePort();
    const recipe = await readFile(join(DEPLOY, 'proxies/nginx.conf'), 'utf8');
    const file = join(directory, 'nginx.conf');
    const keys = isSecure ? ` ssl_certificate ${certificate.cert}; ssl_certificate_key ${certificate.key};` : '';
    const changes = [
      ['    listen 80;', `    listen 127.0.0.1:${port}${isSecure ? ' ssl' : ''}; access_log off;${keys}`],
      ['10.0.0.11:8080', first],
      ['10.0.0.12:8080', second],
      ['worker_processes auto;', `worker_processes 2; pid ${join(directory, 'nginx.pid')};`],
    ] as const;
    const whole = replaced(recipe, changes);
    await mkdir(join(directory, 'logs'), { recursive: true });
    await writeFile(file, whole);
    const errors = join(directory, 'nginx-errors.log');
    const args = ['-p', directory, '-c', file, '-e', errors, '-g', 'daemon off;'];
    const [address, child] = await running({ directory, port, isSecure, program: 'nginx', args });
    async function reload(text: string): Promise<void> {
      await writeFile(file, text);
      child.kill('SIGHUP');
      // The old workers take no requests from then on, and end when theirs have ended.
      const isOver = () => spawnSync('pgrep', ['-P', `${child.pid}`, '-f', 'shutting down']).status !== 0;
      await new Promise((resolve) => setTimeout(resolve, 500));
      while (!isOver()) await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return {
      address,
      remove: async (host) =>
        isToldFirst ? reload(whole.replace(`server ${host}`, `server ${host} down`)) : undefined,
      restore: async () => (isToldFirst ? reload(whole) : undefined),
      stop: () => ended(child),
    };
  },
});

/** `nginx-alone` is what happens without the precaution of the recipe. */
export const PROXIES: readonly ProxyKind[] = [haproxy, caddy, nginx('nginx', true), nginx('nginx-alone', false)];
