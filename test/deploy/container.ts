import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Skipped } from './check.ts';
import { installed, run, succeed } from './tools.ts';

interface ImageConfig {
  architecture: string;
  config: {
    User: string;
    Env: string[];
    Entrypoint: string[];
    Cmd: string[];
    WorkingDir: string;
    Healthcheck: { Test: string[] };
  };
}

export interface Container {
  folder: string;
  image: ImageConfig;
  /** Runs a command beside the server, as `docker exec` does. */
  exec(...args: string[]): ReturnType<typeof run>;
  /** What Docker runs as a health check. */
  isHealthy(): Promise<boolean>;
  output(): string;
  /** Sends SIGTERM. Resolves with the exit code. */
  stop(): Promise<number>;
  [Symbol.asyncDispose](): Promise<void>;
}

interface ContainerOptions {
  env: Record<string, string>;
  /** In the data directory. */
  files?: Record<string, string>;
}

/** Unpacks the layers in their order. */
async function unpack(archive: string, folder: string): Promise<ImageConfig> {
  const layout = join(folder, 'layout');
  const root = join(folder, 'rootfs');
  for (const path of [layout, root]) mkdirSync(path);
  await succeed('tar', ['-xf', archive, '-C', layout]);
  const json = (path: string) => JSON.parse(readFileSync(join(layout, path), 'utf8'));
  const blob = (digest: string) => join('blobs', digest.replace(':', '/'));
  const manifest = json(blob(json('index.json').manifests[0].digest)) as {
    config: { digest: string };
    layers: { digest: string }[];
  };
  for (const { digest } of manifest.layers) {
    await succeed('tar', ['-xzpf', join(layout, blob(digest)), '-C', root, '--numeric-owner']);
  }
  return json(blob(manifest.config.digest));
}

/**
 * Runs an image with runc: as its user, without capabilities, with a read-only root, in the network of this machine. Only the data directory
 * and /tmp can be written to.
 */
export async function startContainer(archive: string, { env, files = {} }: ContainerOptions): Promise<Container> {
  const runc = installed('runc');
  if (process.getuid?.() !== 0) throw new Skipped('runc needs root here');
  const folder = mkdtempSync(join(tmpdir(), 'baobab-container-'));
  const image = await unpack(archive, folder);
  const { config } = image;
  const [uid = 0, gid = 0] = config.User.split(':').map(Number);
  const data = join(folder, 'data');
  mkdirSync(data);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(data, name), text);
  for (const path of [data, ...Object.keys(files).map((name) => join(data, name))]) chownSync(path, uid, gid);
  const dataDir = config.Env.find((each) => each.startsWith('BAOBAB_DATA_DIR='))?.split('=')[1];
  const settings = {
    user: { uid, gid },
    args: [...config.Entrypoint, ...config.Cmd],
    env: [...config.Env, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)],
    cwd: config.WorkingDir,
    capabilities: { bounding: [], effective: [], inheritable: [], permitted: [], ambient: [] },
    noNewPrivileges: true,
  };
  const namespaces = ['pid', 'ipc', 'uts', 'mount'].map((type) => ({ type }));
  const specification = {
    ociVersion: '1.0.2',
    process: settings,
    root: { path: 'rootfs', readonly: true },
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc' },
      { destination: '/sys', type: 'bind', source: '/sys', options: ['rbind', 'ro'] },
      { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755'] },
      { destination: '/tmp', type: 'tmpfs', source: 'tmpfs', options: ['mode=1777'] },
      { destination: dataDir, type: 'bind', source: data, options: ['rbind', 'rw'] },
    ],
    linux: { namespaces },
  };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(specification));
  const id = `baobab-${randomUUID()}`;
  const child = spawn(runc, ['run', '--bundle', folder, id], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
  }
  const exit = once(child, 'exit');
  const exec = (...args: string[]) => run(runc, ['exec', id, ...args]);
  return {
    folder,
    image,
    exec,
    async isHealthy() {
      const [, ...command] = config.Healthcheck.Test;
      return (await exec(...command)).code === 0;
    },
    output: () => output,
    async stop() {
      await run(runc, ['kill', id, 'TERM']);
      return Number((await exit)[0]);
    },
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) {
        await run(runc, ['kill', id, 'KILL']);
        await exit;
      }
      await run(runc, ['delete', '--force', id]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Waits until it is healthy by its own command. */
export async function healthy(container: Container, limitMs: number): Promise<void> {
  const deadlineAt = Date.now() + limitMs;
  while (!(await container.isHealthy())) {
    if (Date.now() > deadlineAt) throw new Error(`not healthy within ${limitMs} ms:\n${container.output()}`);
    await sleep(200);
  }
}
