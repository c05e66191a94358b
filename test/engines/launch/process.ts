import { execFile, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const FETCH_TIMEOUT_MS = 30 * 60_000;
const START_TIMEOUT_MS = 15 * 60_000;
const LOG_TAIL = 1_500;

export interface RunningProcess {
  /** Resolves when the address answers with success. Throws with the end of the log if the process ends first. */
  ready(address: string): Promise<void>;
  /** Ends it and its children at once. */
  kill(): Promise<void>;
}

/** Process groups that must not outlive this process. */
const groups = new Set<number>();
process.once('exit', () => {
  for (const pid of groups) process.kill(-pid, 'SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

/** Runs a program to its end and returns what it printed. */
export async function runProgram(program: string, args: readonly string[], env: object = {}): Promise<string> {
  const options = { env: { ...process.env, ...env }, maxBuffer: 64 * 1024 * 1024, timeout: FETCH_TIMEOUT_MS };
  const { stdout } = await execute(program, [...args], options);
  return stdout;
}

export const hasProgram = (program: string): Promise<boolean> =>
  execute(program, ['--version']).then(
    () => true,
    () => false,
  );

/** Starts a server in a process group of its own, with its output in a file. */
export function startProgram(program: string, args: readonly string[], log: string, env: object = {}): RunningProcess {
  mkdirSync(dirname(log), { recursive: true });
  const output = openSync(log, 'w');
  const child = spawn(program, [...args], {
    stdio: ['ignore', output, output],
    env: { ...process.env, ...env },
    detached: true,
  });
  closeSync(output);
  const { pid } = child;
  if (pid !== undefined) groups.add(pid);
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
    child.once('error', () => resolve());
  });
  let hasEnded = false;
  void ended.then(() => {
    hasEnded = true;
    if (pid !== undefined) groups.delete(pid);
  });

  return {
    async ready(address) {
      const deadline = Date.now() + START_TIMEOUT_MS;
      while (Date.now() < deadline) {
        if (hasEnded) break;
        const answer = await fetch(address, { signal: AbortSignal.timeout(2_000) }).catch(() => undefined);
        if (answer?.ok) return;
        await delay(250);
      }
      throw new Error(`${program} did not start: ${readFileSync(log, 'utf8').slice(-LOG_TAIL)}`);
    },
    async kill() {
      if (!hasEnded && pid !== undefined) process.kill(-pid, 'SIGKILL');
      await ended;
    },
  };
}

/** A virtual environment of Python with these packages, made at first use. Returns the path of its interpreter. */
export async function virtualEnvironment(
  directory: string,
  interpreter: string,
  packages: readonly (readonly string[])[],
): Promise<string> {
  const python = join(directory, 'bin', 'python');
  if (await hasProgram(python)) return python;
  await runProgram(interpreter, ['-m', 'venv', directory]);
  for (const install of packages) await runProgram(python, ['-m', 'pip', 'install', '--quiet', ...install]);
  return python;
}
