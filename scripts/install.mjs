// Plain JavaScript for any Node from 20 on: it runs before anything is installed.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const stampPath = join(root, 'node_modules', '.baobab-installed');
const lockFilePath = join(root, '.baobab-install.lock');

/** The Node version that this project pins. */
export const pinnedNode = join(root, 'node_modules', '.bin', process.platform === 'win32' ? 'node.cmd' : 'node');

function fail(message) {
  process.stderr.write(`baobab: ${message}\n`);
  process.exit(1);
}

/**
 * Whether the lock file has the optional packages of every platform. `npm ci` refuses one that lacks some, and not every registry has
 * them all. `npm install` then takes the locked versions of those that are there.
 */
export function isCompleteLock(lockText) {
  const { packages } = JSON.parse(lockText);
  return Object.entries(packages).every(([path, { optionalDependencies = {}, link }]) =>
    Object.keys(optionalDependencies).every(
      (name) => link || `${path}/node_modules/${name}` in packages || `node_modules/${name}` in packages,
    ),
  );
}

const LOCK_POLL_MS = 200;

function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** One install at a time: a command may be started while the server still installs, and two of them destroy each other's files. */
function lockInstall() {
  let isWaiting = false;
  for (;;) {
    try {
      writeFileSync(lockFilePath, String(process.pid), { flag: 'wx' });
      process.once('exit', () => rmSync(lockFilePath, { force: true }));
      return;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    const owner = existsSync(lockFilePath) ? Number(readFileSync(lockFilePath, 'utf8')) : 0;
    // It was killed. An empty file belongs to a process that is just writing it.
    if (owner > 0 && !isRunning(owner)) rmSync(lockFilePath, { force: true });
    else if (!isWaiting) process.stderr.write('baobab: waiting for another process that installs the dependencies…\n');
    isWaiting = true;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOCK_POLL_MS);
  }
}

/**
 * Installs the dependencies when the lock file has changed since the last install. `wanted` is 'run' (what the service needs)
 * or 'develop' (tests and tools too, which includes the former).
 */
export function ensureInstalled(wanted) {
  const major = Number(process.versions.node.split('.')[0]);
  if (major < 20) {
    fail(`Node ${process.versions.node} cannot install this project: Node 20 or later is needed to begin with.`);
  }
  const lockText = readFileSync(join(root, 'package-lock.json'), 'utf8');
  const lock = createHash('sha256').update(lockText).digest('hex');
  const platform = `${process.platform}-${process.arch}`;
  const isInstalled = () => {
    const [stampedLock, stampedPlatform, stampedFor] = existsSync(stampPath)
      ? readFileSync(stampPath, 'utf8').trim().split(' ')
      : [];
    const enough = stampedFor === wanted || stampedFor === 'develop';
    return stampedLock === lock && stampedPlatform === platform && enough;
  };
  if (isInstalled()) return;
  lockInstall();
  // Another process may have installed them meanwhile.
  if (isInstalled()) {
    rmSync(lockFilePath, { force: true });
    return;
  }

  // Omitting the tools would remove them from a developer's tree.
  const scope = wanted === 'develop' || existsSync(join(root, 'node_modules', 'vitest')) ? 'develop' : 'run';
  const command = isCompleteLock(lockText) ? ['ci'] : ['install', '--no-save'];
  const npmArguments = [...command, scope === 'run' ? '--omit=dev' : '--include=dev'];
  process.stderr.write(`baobab: installing dependencies (npm ${npmArguments.join(' ')})…\n`);
  npmArguments.push('--no-audit', '--no-fund', '--loglevel=error');
  const { NODE_ENV: _, ...inherited } = process.env;
  // A NODE_ENV of production would leave the tools out. onnxruntime-node's own script would look for a CUDA build on the network; the
  // CPU library is in its package.
  const env = { ...inherited, ONNXRUNTIME_NODE_INSTALL: 'skip' };
  const npm = process.env.npm_execpath;
  const result = npm
    ? spawnSync(process.execPath, [npm, ...npmArguments], { cwd: root, env, stdio: ['ignore', 2, 2] })
    : spawnSync('npm', npmArguments, { cwd: root, env, stdio: ['ignore', 2, 2], shell: process.platform === 'win32' });
  if (result.error)
    fail(`npm could not be started (${result.error.message}). Install npm, or run 'npm install' by hand.`);
  if (result.status !== 0) {
    fail(
      `'npm ${command[0]}' failed (exit ${result.status}). See its message above: is the npm registry reachable, the folder writable?`,
    );
  }
  const version = spawnSync(pinnedNode, ['--version'], { encoding: 'utf8', shell: process.platform === 'win32' });
  if (version.status !== 0) {
    fail(
      "the pinned Node runtime (npm package 'node') did not install. Its install script must be allowed to run: check that " +
        "'npm config get ignore-scripts' says false, remove node_modules and try again.",
    );
  }
  writeFileSync(stampPath, `${lock} ${platform} ${scope}\n`);
  rmSync(lockFilePath, { force: true });
}
