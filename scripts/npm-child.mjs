// Runs npm and ends it when the process that started this one is gone. That closes its end of the pipe even when it is killed (kill -9),
// and then nobody else could end npm, which would write to the folder of the next install.
import { spawn } from 'node:child_process';

/** npm tries to undo its work first, which takes longer than anyone waits. The next install repairs the tree anyway. */
const KILL_AFTER_MS = 1_000;
/** A shell's code for a program that cannot be started. */
const NOT_STARTED = 127;

const [program, ...args] = process.argv.slice(2);
const child = spawn(program, args, {
  stdio: ['ignore', 'inherit', 'inherit'],
  shell: program === 'npm' && process.platform === 'win32',
});
// Ctrl-C goes to all processes of the terminal. This one stays until npm has ended.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});
process.stdin.resume().once('close', () => {
  child.kill('SIGTERM');
  setTimeout(() => child.kill('SIGKILL'), KILL_AFTER_MS).unref();
});
child.once('error', (error) => {
  process.stderr.write(error.message);
  process.exit(NOT_STARTED);
});
child.once('exit', (code) => process.exit(code ?? 1));
