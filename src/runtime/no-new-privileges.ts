import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** Of util-linux or BusyBox. */
const PLACES = ['/usr/bin/setpriv', '/bin/setpriv', '/usr/sbin/setpriv'];
const FLAG = '--no-new-privs';

let known: readonly string[] | undefined;

/**
 * What to write before a command so that it and its children can never gain rights, for example by a setuid program. Empty where the
 * system has no `setpriv`. It replaces itself with the command, so the process id stays the same.
 */
export function noNewPrivileges(): readonly string[] {
  known ??= find();
  return known;
}

function find(): readonly string[] {
  if (process.platform !== 'linux') return [];
  const path = PLACES.find((place) => existsSync(place));
  if (path === undefined) return [];
  const { status } = spawnSync(path, [FLAG, 'true'], { stdio: 'ignore', timeout: 5_000 });
  return status === 0 ? [path, FLAG] : [];
}

/** The command and its arguments for `spawn`. */
export function withoutNewPrivileges(command: string, args: readonly string[]): [string, string[]] {
  const [program = command, ...rest] = [...noNewPrivileges(), command, ...args];
  return [program, rest];
}
