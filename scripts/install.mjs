// Plain JavaScript for any Node from 20 on: it runs before anything is installed.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { constants } from 'node:os';
import { dirname, extname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { planInstall, workspacesOf } from './install-plan.mjs';

const scripts = dirname(fileURLToPath(import.meta.url));
const root = join(scripts, '..');
const STAMP = '.baobab-installed';
const stampPath = join(root, 'node_modules', STAMP);
const lockFilePath = join(root, '.baobab-install.lock');
const stagesPath = join(root, '.baobab-install');

const nodeName = process.platform === 'win32' ? 'node.cmd' : 'node';
/** The Node version that this project pins. */
export const pinnedNode = join(root, 'node_modules', '.bin', nodeName);

function fail(message) {
  process.stderr.write(`baobab: ${message}\n`);
  process.exit(1);
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

/** Tells a process from a later one with the same id, where the system says: when it started, and since which boot that counts. */
function startOf(pid) {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    // The name in brackets may have spaces. Behind it, the 20th field is the start.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1).split(' ');
    return `${boot}/${fields[19]}`;
  } catch {
    return '';
  }
}

/** What a lock file says of the process that made it. An empty file belongs to a process that is just writing it. */
function isAbandoned(lock) {
  const [pid = '', start = ''] = lock.split(' ');
  if (pid === '') return false;
  return !isRunning(Number(pid)) || Number(pid) === process.pid || (start !== '' && startOf(pid) !== start);
}

/** One install at a time: a command may be started while the server still installs, and two of them destroy each other's files. */
function lockInstall() {
  let isWaiting = false;
  for (;;) {
    try {
      writeFileSync(lockFilePath, `${process.pid} ${startOf(process.pid)}`, { flag: 'wx' });
      process.once('exit', () => rmSync(lockFilePath, { force: true }));
      return;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    if (isAbandoned(existsSync(lockFilePath) ? readFileSync(lockFilePath, 'utf8') : ''))
      rmSync(lockFilePath, { force: true });
    else if (!isWaiting) process.stderr.write('baobab: waiting for another process that installs the dependencies…\n');
    isWaiting = true;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOCK_POLL_MS);
  }
}

/** A long download must not look like a process that hangs. The variable is for tests. */
const NOTICE_MS = Number(process.env._BAOBAB_INSTALL_NOTICE_MS ?? 20_000);

function announceWork() {
  const startedAt = performance.now();
  return setInterval(() => {
    const seconds = Math.round((performance.now() - startedAt) / 1000);
    process.stderr.write(`baobab: still installing, ${seconds} s so far…\n`);
  }, NOTICE_MS);
}

/** Exit status of `npm-child.mjs` when there is no npm. */
const NOT_STARTED = 127;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/** Returns undefined on success, else npm's error code, such as E404, and what it printed. A signal ends npm, then this process. */
async function runNpm(cwd, command) {
  // No package needs its install script, and onnxruntime-node's would look for a CUDA build on the network.
  const npmArguments = [...command, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  // A NODE_ENV of production would leave the tools out.
  const { NODE_ENV: _, ...env } = process.env;
  const npm = process.env.npm_execpath;
  const program = [...(npm ? [process.execPath, npm] : ['npm']), ...npmArguments];
  const child = spawn(process.execPath, [join(scripts, 'npm-child.mjs'), ...program], {
    cwd,
    env,
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  let received;
  const stop = (signal) => {
    received ??= signal;
    child.stdin.destroy();
  };
  for (const signal of SIGNALS) process.on(signal, stop);
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const notices = announceWork();
  const status = await new Promise((resolve) => {
    child.once('close', resolve);
    child.once('error', () => resolve(NOT_STARTED));
  });
  clearInterval(notices);
  // Only now, when npm has ended: what it has written is removed on exit.
  if (received) process.exit(128 + constants.signals[received]);
  for (const signal of SIGNALS) process.off(signal, stop);
  if (status === 0) return undefined;
  if (status === NOT_STARTED) {
    fail(`npm could not be started (${stderr.trim()}). Install npm, or run 'npm install' by hand.`);
  }
  return { command: command[0], code: /^npm \S+ code (\S+)/m.exec(stderr)?.[1], stderr };
}

function failNpm({ command, stderr }) {
  process.stderr.write(stderr);
  fail(`'npm ${command}' failed. See its message above: is the npm registry reachable, the folder writable?`);
}

function checkNode(path) {
  const { status } = spawnSync(path, ['--version'], { shell: process.platform === 'win32' });
  if (status === 0) return;
  fail(
    `the pinned Node runtime does not run. Its package for ${process.platform}-${process.arch} (optionalDependencies in package.json) ` +
      'is missing in the registry, or does not fit this system.',
  );
}

function thisMachine() {
  const { platform: os, arch: cpu } = process;
  if (os !== 'linux') return { os, cpu };
  process.report.excludeNetwork = true;
  return { os, cpu, libc: process.report.getReport().header.glibcVersionRuntime ? 'glibc' : 'musl' };
}

/** onnxruntime-node brings the libraries of all platforms: 240 MB of 290 are never used. */
function removeForeignLibraries(modules) {
  const bin = join(modules, 'onnxruntime-node', 'bin');
  const list = (path) => (existsSync(path) ? readdirSync(path).map((name) => [name, join(path, name)]) : []);
  for (const [, api] of list(bin)) {
    for (const [os, osPath] of list(api)) {
      if (os !== process.platform) rmSync(osPath, { recursive: true });
      else for (const [cpu, cpuPath] of list(osPath)) if (cpu !== process.arch) rmSync(cpuPath, { recursive: true });
    }
  }
}

/** Packages of hundreds of modules: half of those that a server or command loads. */
const MANY_MODULES = ['kysely', 'typebox'];

/** Bundles the modules of each such package: to find and load them takes a third of the processor time of a start. */
function bundlePackages(modules) {
  const esbuild = join(modules, 'esbuild', 'bin', 'esbuild');
  for (const folder of MANY_MODULES.map((name) => join(modules, name))) {
    if (!existsSync(folder)) continue;
    const { exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const entries = Object.values(exports).map((each) => each.default ?? each);
    // Entries share chunks, so that a class is the same one in all of them.
    const options = [
      ...['--bundle', '--splitting', '--format=esm', '--platform=node', '--packages=external', '--log-level=error'],
      ...['--outbase=.', '--outdir=.', '--allow-overwrite', `--out-extension:.js=${extname(entries[0])}`],
    ];
    // Where esbuild does not run, the package stays as it is.
    spawnSync(process.execPath, [esbuild, ...entries, ...options], { cwd: folder, stdio: 'ignore' });
  }
}

/** The stage has no copy of this repository's packages, so npm could not link to them. */
function linkWorkspaces(modules, lock) {
  for (const [name, folder] of workspacesOf(lock)) {
    const link = join(modules, name);
    mkdirSync(dirname(link), { recursive: true });
    // Windows lets ordinary users make junctions only, and those need absolute targets.
    const target =
      process.platform === 'win32' ? join(root, folder) : relative(dirname(link), join(modules, '..', folder));
    symlinkSync(target, link, 'junction');
  }
}

function removeStages() {
  try {
    rmSync(stagesPath, { recursive: true, force: true });
  } catch {
    // The npm of an install that was killed still writes there. The next install removes it.
  }
}

/**
 * Moves what `baobab gpu build` compiled from the old tree to the new one, if it is still the same llama.cpp. The old tree may be a link to
 * that of another checkout, which keeps what it has.
 */
function keepLocalBuilds(replaced, modules) {
  const [from, to] = [replaced, modules].map((tree) => join(tree, 'node-llama-cpp'));
  if (!existsSync(join(from, 'package.json')) || !existsSync(join(to, 'package.json'))) return;
  const [before, after] = [from, to].map(
    (path) => JSON.parse(readFileSync(join(path, 'package.json'), 'utf8')).version,
  );
  if (before !== after) return;
  const isLink = lstatSync(replaced).isSymbolicLink();
  for (const name of readdirSync(join(from, 'llama'))) {
    const [old, kept] = [join(from, 'llama', name), join(to, 'llama', name)];
    if (existsSync(kept)) continue;
    if (isLink) cpSync(old, kept, { recursive: true });
    else renameSync(old, kept);
  }
}

/**
 * Installs into a folder of its own, and moves the tree into place when it is complete, so that a process that is killed meanwhile leaves
 * the old tree. Returns false where the lock file or the registry does not fit this way, for `npm install` to try.
 */
async function installStaged(lockText, scope, stamp) {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const lock = JSON.parse(lockText);
  const plan = planInstall(manifest, lock, thisMachine(), scope === 'develop');
  if (!plan) return false;
  removeStages();
  process.once('exit', removeStages);
  mkdirSync(stagesPath, { recursive: true });
  const stage = mkdtempSync(join(stagesPath, 'stage-'));
  try {
    writeFileSync(join(stage, 'package.json'), JSON.stringify(plan.manifest));
    writeFileSync(join(stage, 'package-lock.json'), JSON.stringify(plan.lock));
    if (existsSync(join(root, '.npmrc'))) copyFileSync(join(root, '.npmrc'), join(stage, '.npmrc'));
    const options = ['--include=dev', '--include=optional', '--replace-registry-host=npmjs', '--prefer-offline'];
    const failure = await runNpm(stage, ['ci', ...options]);
    // The registry keeps its tarballs elsewhere, or this npm reads the lock file differently.
    if (failure && /^E(4\d\d|USAGE)$/.test(failure.code)) return false;
    if (failure) failNpm(failure);
    // npm skips an optional package that it cannot fetch.
    const isThere = (path) => path === '' || existsSync(join(stage, path, 'package.json'));
    if (!Object.keys(plan.lock.packages).every(isThere)) return false;
    const modules = join(stage, 'node_modules');
    checkNode(join(modules, '.bin', nodeName));
    removeForeignLibraries(modules);
    bundlePackages(modules);
    linkWorkspaces(modules, lock);
    writeFileSync(join(modules, STAMP), stamp);
    const current = join(root, 'node_modules');
    const replaced = join(stage, 'replaced');
    if (existsSync(current)) renameSync(current, replaced);
    renameSync(modules, current);
    keepLocalBuilds(replaced, current);
    return true;
  } finally {
    removeStages();
  }
}

/**
 * Installs the dependencies when the lock file has changed since the last install. `wanted` is 'run' (what the service needs)
 * or 'develop' (tests and tools too, which includes the former).
 */
export async function ensureInstalled(wanted) {
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
  const stamp = `${lock} ${platform} ${scope}\n`;
  process.stderr.write(`baobab: installing dependencies${scope === 'run' ? ', a download of 240 MB' : ''}…\n`);
  if (!(await installStaged(lockText, scope, stamp))) {
    // Killed from here on, the tree may be incomplete, and the next start must not take it for whole.
    rmSync(stampPath, { force: true });
    const failure = await runNpm(root, ['install', '--no-save', scope === 'run' ? '--omit=dev' : '--include=dev']);
    if (failure) failNpm(failure);
    checkNode(pinnedNode);
    writeFileSync(stampPath, stamp);
  }
  rmSync(lockFilePath, { force: true });
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) await ensureInstalled('run');
