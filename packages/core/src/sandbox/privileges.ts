import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** Where util-linux or BusyBox install it. */
const PATHS = ['/usr/bin/setpriv', '/bin/setpriv', '/usr/sbin/setpriv'];
const FLAG = '--no-new-privs';
/** BusyBox has no such flag. Processes that must end with the server in any case watch it themselves (runtime/end-with-parent.ts). */
const ENDS_WITH_PARENT = ['--pdeathsig', 'KILL'];

let known: readonly string[] | undefined;

/**
 * What to write before a command so that it and its children can never gain rights, for example by a setuid program, and so that
 * the kernel kills it when this process ends. Empty where the system has no `setpriv`. It replaces itself with the command, so the process id stays the same.
 */
export function noNewPrivileges(): readonly string[] {
  known ??= find();
  return known;
}

function find(): readonly string[] {
  if (process.platform !== 'linux') return [];
  const path = PATHS.find((each) => existsSync(each));
  if (path === undefined) return [];
  const works = (prefix: readonly string[]) =>
    spawnSync(path, [...prefix.slice(1), 'true'], { stdio: 'ignore', timeout: 5_000 }).status === 0;
  return (
    [
      [path, FLAG, ...ENDS_WITH_PARENT],
      [path, FLAG],
    ].find(works) ?? []
  );
}

/** What a process must be allowed to read to start others with fewer rights. */
export const NEEDED_FOR_LIMITS: readonly string[] = [...PATHS, '/bin/sh'];

/** The command and its arguments for `spawn`. */
export function withoutNewPrivileges(command: string, args: readonly string[]): [string, string[]] {
  const [program = command, ...rest] = [...noNewPrivileges(), command, ...args];
  return [program, rest];
}

const SHELL = '/bin/sh';

export interface ProcessLimits {
  /** Limit of everything the process allocates or reserves for writing. */
  memoryBytes: number;
  /** The process is killed when it has used this much. Not wall time, which also passes on a busy machine. */
  cpuSeconds?: number;
}

const SCRIPT = 'ulimit -d "$1" 2>/dev/null; ulimit -t "$2" 2>/dev/null; ulimit -c 0 2>/dev/null; shift 2; exec "$@"';

/**
 * The command and its arguments for `spawn`, under limits that the kernel enforces. The shell replaces itself with the command, so the
 * process id stays the same. Windows has no such limits, and a system without a shell sets none.
 */
export function withProcessLimits(
  command: string,
  args: readonly string[],
  { memoryBytes, cpuSeconds = Number.POSITIVE_INFINITY }: ProcessLimits,
): [string, string[]] {
  if (process.platform === 'win32' || !existsSync(SHELL)) return [command, [...args]];
  const kilobytes = Math.ceil(memoryBytes / 1024);
  const seconds = Number.isFinite(cpuSeconds) ? String(Math.ceil(cpuSeconds)) : 'unlimited';
  return [SHELL, ['-c', SCRIPT, 'sh', String(kilobytes), seconds, command, ...args]];
}
