import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { withoutNewPrivileges } from '@baobab/core/sandbox/privileges.ts';
import { childEnvironment } from './child-environment.ts';
import { forEachLine } from './output-lines.ts';

export interface ChildOptions {
  /** For Node, such as those of its permission model. */
  flags: readonly string[];
  /** It can never gain rights, where the system has a way to say so. */
  restricted: boolean;
  /** Variables of the server. */
  environment: Readonly<Record<string, string | undefined>>;
  logger: Logger;
  /** `slug@version`, for the log. */
  model: string;
}

export const ENTRY = fileURLToPath(import.meta.resolve('@baobab/core/engine/child/main.ts'));

/** Starts Node with `child/main.ts` and a pipe to it. Its output goes to the log. */
export function spawnChild({ flags, restricted, environment, logger, model }: ChildOptions): {
  child: ChildProcess;
  pipe: Socket;
} {
  const nodeArguments = [...flags, ENTRY, String(process.pid)];
  const [program, args] = restricted
    ? withoutNewPrivileges(process.execPath, nodeArguments)
    : [process.execPath, nodeArguments];
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    env: childEnvironment(environment),
  });
  const facts = { model, pid: child.pid };
  const pipe = child.stdio?.[3];
  if (!(pipe instanceof Socket)) {
    // Without a free file descriptor there is no pipe. The error event comes later, and would end the server if it were not handled.
    child.on('error', () => {});
    throw new Error('The engine process has no pipe');
  }
  if (child.stdout !== null) forEachLine(child.stdout, (line) => logger.debug(facts, `engine: ${line}`));
  if (child.stderr !== null) forEachLine(child.stderr, (line) => logger.warn(facts, `engine: ${line}`));
  return { child, pipe };
}

export function describeExit({ exitCode, signalCode }: ChildProcess): string {
  if (signalCode === 'SIGKILL') return 'it was killed from outside, perhaps because memory ran out';
  if (signalCode !== null) return `it crashed with ${signalCode}`;
  return `it exited with code ${exitCode ?? 'unknown'}`;
}
