#!/usr/bin/env node
// Installs what is missing, then runs packages/server/src/main.ts under the pinned Node.
import { spawn } from 'node:child_process';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensureInstalled, pinnedNode } from '../scripts/install.mjs';
import { FILE_THREADS, SERVE_FLAGS } from './serve-flags.mjs';

const PARENT_CHECK_MS = 500;

/**
 * Where Node keeps compiled code. By the variable it is used for the first file and in threads too. In the home directory, because in
 * Node's default, the temporary directory, other users could leave code for this one. Node goes without it where it cannot write.
 */
function chooseCompileCache() {
  try {
    const home = homedir();
    if (isAbsolute(home)) process.env.NODE_COMPILE_CACHE ??= join(home, '.cache', 'baobab', 'compiled');
  } catch {
    // This user has no home directory.
  }
}

// npm's shell passes no signals on: when it is gone, npm was stopped.
const parent = process.ppid;
const underNpm = process.env.npm_lifecycle_event !== undefined;
const npmIsGone = () => underNpm && process.ppid !== parent;

// The signal that npm was stopped by ends the install.
const installWatch = setInterval(() => npmIsGone() && process.kill(process.pid, 'SIGTERM'), PARENT_CHECK_MS);
await ensureInstalled('run');
clearInterval(installWatch);
if (npmIsGone()) process.exit(143);

process.env.UV_THREADPOOL_SIZE ??= FILE_THREADS;
chooseCompileCache();

const command = process.argv.slice(2);
const main = fileURLToPath(new URL('../packages/server/src/main.ts', import.meta.url));
const args = [...(command[0] === 'serve' ? SERVE_FLAGS : []), main, ...command];

// With execve the server replaces this process, so signals reach it directly.
const canBecome = process.execve !== undefined && process.platform !== 'win32';
// npm's shell passes no signals on, and a parent may be killed: the server then checks whether its parent is alive.
if (!canBecome || underNpm) process.env._BAOBAB_ENDS_WITH_PARENT = '1';
if (canBecome) process.execve(pinnedNode, [pinnedNode, ...args]);

const child = spawn(pinnedNode, args, { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
const watch = setInterval(() => {
  if (!npmIsGone()) return;
  clearInterval(watch);
  child.kill('SIGTERM');
}, PARENT_CHECK_MS);
watch.unref();
child.on('exit', (code, signal) => {
  process.exitCode = code ?? (signal === 'SIGINT' ? 130 : signal === 'SIGTERM' ? 143 : 1);
});
