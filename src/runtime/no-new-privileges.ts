import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** Of util-linux or BusyBox. */
const PLACES = ['/usr/bin/setpriv', '/bin/setpriv', '/usr/sbin/setpriv'];
const FLAG = '--no-new-privs';
/** BusyBox has no such flag. Processes that must end with the server in any case watch it themselves (end-with-parent.ts). */
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
  const path = PLACES.find((place) => existsSync(place));
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

/** The command and its arguments for `spawn`. */
export function withoutNewPrivileges(command: string, args: readonly string[]): [string, string[]] {
  const [program = command, ...rest] = [...noNewPrivileges(), command, ...args];
  return [program, rest];
}
