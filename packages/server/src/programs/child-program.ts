import { type ChildProcess, spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { Scrub } from '@baobab/core/runtime/secret-scrubber.ts';
import { withoutNewPrivileges } from '@baobab/core/sandbox/privileges.ts';
import { describeExit, forEachLine } from '../host/process/child-process.ts';

/** A running program with all processes that it has started. */
export interface ChildProgram {
  readonly pid: number | undefined;
  /** Resolves when the program is gone. What it left running is killed then. */
  readonly ended: Promise<void>;
  /** Resolves with the reason when all that it printed has been read, too. */
  readonly exited: Promise<string>;
  /** The last lines of its output, in one. */
  tail(): string;
  signal(signal: 'SIGTERM' | 'SIGKILL'): void;
}

export interface ChildProgramOptions {
  program: string;
  args: readonly string[];
  environment: Readonly<Record<string, string>>;
  /** Hides its key in what it prints. */
  scrub: Scrub;
  logger: Logger;
  /** `slug@version`, for the log. */
  model: string;
}

const TAIL_LINES = 12;
const TAIL_LINE_CHARS = 300;
/** Its last lines may still be in its pipes. */
const FINAL_OUTPUT_GRACE_MS = 3_000;

/** Kills the process group of its argument when its input closes, which it does when the server ends, however that ended. */
const WATCHER = 'read -r _; kill -KILL "-$1" 2>/dev/null';

export function startChildProgram(options: ChildProgramOptions): ChildProgram {
  const { environment, logger, model, scrub } = options;
  const [command, args] = withoutNewPrivileges(options.program, options.args);
  // In a group of its own: Ctrl-C does not reach it while the server still has requests to finish, and it ends as a whole.
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...environment }, detached: true });
  const ended = Promise.withResolvers<void>();
  const exited = Promise.withResolvers<string>();
  const { pid } = child;
  const watcher = pid === undefined ? undefined : watch(pid);
  const lines: string[] = [];
  const log = (line: string) => logger.debug({ model, pid }, `engine: ${scrub(line)}`);
  const remember = (line: string): void => {
    lines.push(line.slice(0, TAIL_LINE_CHARS));
    if (lines.length > TAIL_LINES) lines.shift();
  };
  for (const output of [child.stdout, child.stderr]) if (output !== null) forEachLine(output, log, remember);

  function signal(name: 'SIGTERM' | 'SIGKILL'): void {
    if (pid === undefined) return;
    try {
      process.kill(-pid, name);
    } catch {
      // All of its processes are gone.
    }
  }
  function finish(reason: string): void {
    watcher?.kill('SIGKILL');
    ended.resolve();
    exited.resolve(reason);
  }
  child.once('error', (error) => {
    logger.error({ model, pid, err: error }, 'failed to start a program');
    finish('it could not be started');
  });
  child.once('exit', () => {
    const reason = describeExit(child);
    // What it left running may hold its output open.
    signal('SIGKILL');
    ended.resolve();
    const timer = setTimeout(() => finish(reason), FINAL_OUTPUT_GRACE_MS);
    child.once('close', () => {
      clearTimeout(timer);
      finish(reason);
    });
  });

  // When memory runs out, the kernel should kill an engine and not the server.
  if (process.platform === 'linux') writeFile(`/proc/${pid}/oom_score_adj`, '500').catch(() => {});
  return { pid, ended: ended.promise, exited: exited.promise, tail: () => scrub(lines.join(' | ')), signal };
}

function watch(group: number): ChildProcess {
  const watcher = spawn('/bin/sh', ['-c', WATCHER, 'sh', String(group)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    env: {},
    // Ctrl-C would end it before the server.
    detached: true,
  });
  watcher.on('error', () => {});
  watcher.stdin?.on('error', () => {});
  watcher.unref();
  return watcher;
}
