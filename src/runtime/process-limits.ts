import { existsSync } from 'node:fs';

const SHELL = '/bin/sh';

export interface ProcessLimits {
  /** Of everything the process allocates or reserves for writing. */
  memoryBytes: number;
  /** The process is killed when it has used this much. Not wall time, which also passes on a busy machine. */
  cpuSeconds: number;
}

const SCRIPT = 'ulimit -d "$1" 2>/dev/null; ulimit -t "$2" 2>/dev/null; ulimit -c 0 2>/dev/null; shift 2; exec "$@"';

/**
 * The command and its arguments for `spawn`, under limits that the kernel enforces. The shell replaces itself with the command, so the
 * process id stays the same. Windows has no such limits, and a system without a shell sets none.
 */
export function withProcessLimits(
  command: string,
  args: readonly string[],
  { memoryBytes, cpuSeconds }: ProcessLimits,
): [string, string[]] {
  if (process.platform === 'win32' || !existsSync(SHELL)) return [command, [...args]];
  const kilobytes = Math.ceil(memoryBytes / 1024);
  return [SHELL, ['-c', SCRIPT, 'sh', String(kilobytes), String(Math.ceil(cpuSeconds)), command, ...args]];
}
