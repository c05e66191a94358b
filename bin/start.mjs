// Becomes the program of the server. For both commands: that of a checkout, and that of a release.
import { spawn } from 'node:child_process';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { FILE_THREADS, SERVE_FLAGS } from './serve-flags.mjs';

const PARENT_CHECK_MS = 500;

// npm's shell passes no signals on: when it is gone, npm was stopped.
const parent = process.ppid;
const underNpm = process.env.npm_lifecycle_event !== undefined;
export const npmIsGone = () => underNpm && process.ppid !== parent;

/** Calls `end` when npm was stopped. Returns a timer. */
export const watchNpm = (end) => setInterval(() => npmIsGone() && end(), PARENT_CHECK_MS);

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

/** Runs `main` under `node` with the arguments of this process. */
export function start(node, main) {
  process.env.UV_THREADPOOL_SIZE ??= FILE_THREADS;
  chooseCompileCache();
  const command = process.argv.slice(2);
  const args = [...(command[0] === 'serve' ? SERVE_FLAGS : []), main, ...command];

  // With execve the server replaces this process, so signals reach it directly.
  const canBecome = process.execve !== undefined && process.platform !== 'win32';
  // npm's shell passes no signals on, and a parent may be killed: the server then checks whether its parent is alive.
  if (!canBecome || underNpm) process.env._BAOBAB_ENDS_WITH_PARENT = '1';
  if (canBecome) process.execve(node, [node, ...args]);

  const child = spawn(node, args, { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  const watch = watchNpm(() => {
    clearInterval(watch);
    child.kill('SIGTERM');
  });
  watch.unref();
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? (signal === 'SIGINT' ? 130 : signal === 'SIGTERM' ? 143 : 1);
  });
}
