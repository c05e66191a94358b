import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { Socket } from 'node:net';
import { delimiter } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { EngineRights } from '@baobab/core/engine/driver.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { moduleFolders, packageFolder } from '@baobab/core/runtime/package-folders.ts';
import { withoutNewPrivileges } from '@baobab/core/sandbox/privileges.ts';

const MAX_LINE_CHARS = 2_000;
/** A failing native library can print without end. */
const MAX_LINES_PER_SECOND = 50;

interface ChildOptions {
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

const ENTRY = fileURLToPath(import.meta.resolve('@baobab/core/engine/child/main.ts'));

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

/**
 * Reads a stream line by line within bounds, so that a noisy process can fill neither memory nor the log. `onAny` gets the lines that are too
 * many for the log too.
 */
export function forEachLine(stream: Readable, onLine: (line: string) => void, onAny?: (line: string) => void): void {
  let rest = '';
  let windowStart = 0;
  let lines = 0;

  function emit(line: string): void {
    if (line.trim() === '') return;
    const now = performance.now();
    if (now - windowStart > 1_000) {
      windowStart = now;
      lines = 0;
    }
    lines += 1;
    const short = line.slice(0, MAX_LINE_CHARS);
    onAny?.(short);
    if (lines <= MAX_LINES_PER_SECOND) onLine(short);
  }

  stream.setEncoding('utf8');
  stream.on('data', (chunk: string) => {
    const pieces = (rest + chunk).split('\n');
    rest = (pieces.pop() ?? '').slice(0, MAX_LINE_CHARS);
    pieces.forEach(emit);
  });
  stream.on('end', () => emit(rest));
  stream.on('error', () => {});
}

/** When memory runs out, the kernel should kill an engine and not the server. */
const OUT_OF_MEMORY_SCORE = '/proc/self/oom_score_adj';
/** Warnings that flags weaken the permission model: of addons, child processes and workers. */
const QUIET = ['PERM0001', 'PERM0002', 'PERM0006'];

interface PermissionOptions {
  /** The driver's module. */
  module: URL;
  /** The model's directory. */
  directory: string;
  rights: EngineRights;
  /** `LD_LIBRARY_PATH` of the process: a runtime may look for libraries there. */
  libraryPath: string | undefined;
}

/**
 * Flags for Node's permission model: an engine process reads code, packages and its model, and writes nothing. The model binds
 * JavaScript only, so it catches mistakes such as a path that leaves its directory. It does not contain malicious native code.
 */
export function permissionFlags({ module, directory, rights, libraryPath }: PermissionOptions): string[] {
  const code = [ENTRY, fileURLToPath(module)];
  const libraries = (libraryPath ?? '').split(delimiter).filter((path) => path !== '');
  const readable = [
    ...code.map(packageFolder),
    ...code.flatMap(moduleFolders),
    directory,
    ...libraries,
    ...(rights.readable ?? []),
  ];
  // Not the target of the first one: it would be a file of the server's process.
  const writable = [OUT_OF_MEMORY_SCORE, ...withTargets(rights.writable ?? [])];
  return [
    '--permission',
    // The watchdog of the engine process is a worker.
    '--allow-worker',
    '--allow-addons',
    ...(rights.childProcesses === true ? ['--allow-child-process'] : []),
    ...withTargets(readable).map((path) => `--allow-fs-read=${path}`),
    ...writable.map((path) => `--allow-fs-write=${path}`),
    ...QUIET.map((code) => `--disable-warning=${code}`),
  ];
}

/** A path that is a link needs rights for itself and for its target. */
function withTargets(paths: readonly string[]): string[] {
  return [...new Set(paths.flatMap((path) => (existsSync(path) ? [path, realpathSync(path)] : [path])))];
}

/** Keys and tokens in the server's environment stay in the server. */
const PASSED_ON = /^(PATH|HOME|LANG|LC_[A-Z]+|TZ|TMPDIR|LD_LIBRARY_PATH|CUDA_[A-Z_]+|VK_[A-Z_]+|SystemRoot)$/;

/** Since 1.29, onnxruntime reports models and machines to Microsoft unless this is set before it is loaded. Nothing here reports to anyone. */
const NO_REPORTS = { ORT_DISABLE_TELEMETRY: '1' };

/** The variables that child processes get. */
export function childEnvironment(environment: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const entries = Object.entries(environment).filter(
    (entry): entry is [string, string] => PASSED_ON.test(entry[0]) && entry[1] !== undefined,
  );
  return { ...Object.fromEntries(entries), ...NO_REPORTS };
}
