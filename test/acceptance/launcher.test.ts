import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SERVE_FLAGS } from '../../bin/serve-flags.mjs';
import { API_KEY, MODELS_DIR } from './start-server.ts';

const ROOT = join(import.meta.dirname, '../..');
const LAUNCHER = join(ROOT, 'bin/baobab.mjs');
/** What an older Node is like. */
const WITHOUT_EXECVE = ['--import', 'data:text/javascript,process.execve = undefined'];

let dataDir: string;
let launched: ChildProcess | undefined;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'baobab-launch-'));
});
afterEach(async () => {
  launched?.kill('SIGKILL');
  await rm(dataDir, { recursive: true, force: true });
});

async function serve(nodeFlags: string[] = [], likeNpm = false): Promise<ChildProcess> {
  const command = [process.execPath, ...nodeFlags, LAUNCHER, 'serve', '--port', '0'];
  // The second command keeps the shell from becoming the first.
  const [program = '', ...args] = likeNpm ? ['sh', '-c', '"$@"; exit', 'sh', ...command] : command;
  const child = spawn(program, args, {
    cwd: dataDir,
    env: {
      ...process.env,
      ...(likeNpm ? { npm_lifecycle_event: 'start' } : {}),
      BAOBAB_DATA_DIR: dataDir,
      BAOBAB_FIRST_KEY: API_KEY,
      BAOBAB_MODELS_DIR: MODELS_DIR,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  launched = child;
  let output = '';
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk;
      if (output.includes('Baobab serves on')) resolve();
    });
    child.once('exit', () => reject(new Error(`the server ended before it listened:\n${output}`)));
  });
  return child;
}

const childOf = async (pid: string): Promise<string> =>
  (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ')[0] ?? '';
/** Empty when the process has ended. */
const commandOf = (pid: string): Promise<string> => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');

describe('bin/baobab.mjs', () => {
  it.runIf(process.platform === 'linux')(
    'becomes the server, with the flags that a server runs best with',
    async () => {
      const { pid } = await serve();
      const commandLine = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0');
      expect(commandLine).toEqual(expect.arrayContaining([...SERVE_FLAGS, 'serve']));
      expect(commandLine.some((word) => word.endsWith('packages/server/src/main.ts'))).toBe(true);
    },
  );

  const run = async (home: string, ...args: string[]) => {
    const command = [LAUNCHER, ...args];
    const { NODE_COMPILE_CACHE: _, ...env } = process.env;
    const child = spawn(process.execPath, command, { env: { ...env, HOME: home }, stdio: 'ignore' });
    return once(child, 'exit');
  };

  it('keeps compiled code in the home directory, and does without it where that cannot be written', async () => {
    const cache = join(dataDir, '.cache/baobab/compiled');
    expect(await run(dataDir, 'accounts', 'create', 'team', '--data-dir', join(dataDir, 'one'))).toEqual([0, null]);
    const [version = ''] = await readdir(cache);
    expect((await readdir(join(cache, version))).length).toBeGreaterThan(100);
    for (const home of ['/dev/null', '', 'relative']) expect(await run(home, '--version')).toEqual([0, null]);
    expect(existsSync('relative')).toBe(false);
  });

  it.each([
    ['where Node can become another one', []],
    ['where it cannot and stays in front', WITHOUT_EXECVE],
  ])('ends in order on SIGTERM, %s', async (_, nodeFlags) => {
    const child = await serve(nodeFlags);
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([0, null]);
  });

  it.runIf(process.platform === 'linux').each([
    ['an older Node in front of it', 'SIGKILL', 'node', [...WITHOUT_EXECVE]],
    ["npm's shell around it", 'SIGTERM', 'sh', []],
    ["npm's shell around an older Node", 'SIGTERM', 'sh', [...WITHOUT_EXECVE]],
  ] as const)('ends in order when %s is gone', async (_, signal, kind, nodeFlags) => {
    const front = await serve([...nodeFlags], kind === 'sh');
    let server = await childOf(`${front.pid}`);
    while (!(await commandOf(server)).includes('packages/server/src/main.ts')) server = await childOf(server);
    front.kill(signal);
    await expect.poll(() => commandOf(server)).toBe('');
  });

  it.runIf(process.platform === 'linux')(
    'ends the install, and does not serve, when npm was stopped meanwhile',
    async () => {
      const root = join(dataDir, 'checkout');
      await cp(join(ROOT, 'bin'), join(root, 'bin'), { recursive: true });
      for (const script of ['install.mjs', 'install-plan.mjs', 'npm-child.mjs']) {
        await cp(join(ROOT, 'scripts', script), join(root, 'scripts', script));
      }
      await writeFile(join(root, 'package.json'), '{"type": "module"}');
      await writeFile(join(root, 'package-lock.json'), '{"packages": {}}');
      await mkdir(join(root, 'packages/server/src'), { recursive: true });
      await writeFile(
        join(root, 'packages/server/src/main.ts'),
        `import('node:fs').then((fs) => fs.writeFileSync('${root}/started', ''));`,
      );
      const npm = join(root, 'npm.mjs');
      await writeFile(
        npm,
        `import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
       mkdirSync('node_modules/.bin', { recursive: true });
       symlinkSync(process.execPath, 'node_modules/.bin/node');
       writeFileSync('${root}/installing', String(process.pid), { flush: true });
       setInterval(() => {}, 1_000_000);`,
      );
      const shell = spawn('sh', ['-c', '"$@"; exit', 'sh', process.execPath, join(root, 'bin/baobab.mjs'), 'serve'], {
        env: { ...process.env, npm_lifecycle_event: 'start', npm_execpath: npm },
        stdio: 'ignore',
      });
      launched = shell;
      const npmPid = () => readFile(join(root, 'installing'), 'utf8').catch(() => '');
      await expect.poll(npmPid).not.toBe('');
      const launcher = await childOf(`${shell.pid}`);
      shell.kill('SIGTERM');
      await once(shell, 'exit');
      await expect.poll(() => commandOf(launcher)).toBe('');
      expect(await commandOf(await npmPid())).toBe('');
      expect(existsSync(join(root, 'started'))).toBe(false);
    },
  );

  it.each([[[]], [WITHOUT_EXECVE]])('passes arguments, output and the exit code through (%j)', async (nodeFlags) => {
    const child = spawn(process.execPath, [...nodeFlags, LAUNCHER, 'no-such-command'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    launched = child;
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk));
    const [code] = await once(child, 'close');
    expect(code).toBe(2);
    expect(output).toContain("unknown command 'no-such-command'");
  });
});
