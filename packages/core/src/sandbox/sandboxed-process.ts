import { type ChildProcess, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setPriority } from 'node:os';
import type { Readable } from 'node:stream';
import { moduleFolders, packageFolder } from '../runtime/package-folders.ts';
import { type ProcessLimits, withoutNewPrivileges, withProcessLimits } from './privileges.ts';
import { REPORT_DESCRIPTOR } from './sandboxed-program.ts';

/** Called when a process has ended, with the reason why it could not be sealed: it had the rights of Node's permission model then. */
export type OnSeal = (reason: string | undefined) => void;

export interface SandboxedProgram<Reason extends string> {
  /** For errors, such as 'the PDF reader'. */
  name: string;
  /** The file to run. */
  entry: string;
  /** A file of the package that it uses, which may be installed elsewhere than beside the entry. */
  library: string;
  heapMegabytes: number;
  /** Sent as JSON. */
  argument: object;
  /** Its standard input: a pipe, or an open file. */
  input: 'pipe' | number;
  onSeal?: OnSeal | undefined;
  /** Limits that the kernel enforces. */
  limits?: ProcessLimits;
  /** Above 0, other processes go first. */
  niceness?: number;
  /** Asked again and again while it runs: a reason ends it. For systems on which the kernel sets no limits, or none as tight. */
  check(used: ProcessUsage): Reason | undefined;
}

/** Zeros where it cannot be read: it is available on Linux only. */
export interface ProcessUsage {
  memoryBytes: number;
  cpuSeconds: number;
}

export interface ProcessExit {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** It could not be started. */
  error?: Error;
}

/** The end of a process that did not do its work. */
export interface SandboxedEnd<Failure, Reason> {
  exit: ProcessExit;
  /** What the program reported. */
  failure: Failure | undefined;
  /** The first reason that it was killed for. */
  killedFor: Reason | undefined;
}

const CHECK_MS = 250;
const CLOCK_TICKS_PER_SECOND = 100;
const MAX_REPORT_CHARACTERS = 65_536;

/**
 * A process that works on one file of a stranger: it may read its code, and write and start nothing. It is killed when the signal fires or
 * it is disposed of.
 */
export class SandboxedProcess<Failure, Reason extends string> implements AsyncDisposable {
  readonly child: ChildProcess;
  readonly exit: Promise<ProcessExit>;
  readonly #program: SandboxedProgram<Reason>;
  readonly #report: Promise<Report<Failure>>;
  readonly #signal: AbortSignal;
  readonly #checks: NodeJS.Timeout;
  readonly #onAbort = () => this.kill();
  #killedFor: Reason | undefined;

  constructor(program: SandboxedProgram<Reason>, signal: AbortSignal) {
    this.#program = program;
    this.#signal = signal;
    const child = start(program);
    this.child = child;
    this.exit = new Promise((resolve) => {
      child.once('close', (code, by) => resolve({ code, signal: by }));
      child.once('error', (error) => resolve({ code: null, signal: null, error }));
    });
    this.#report = readReport(child.stdio[REPORT_DESCRIPTOR] as Readable, program.onSeal);
    this.#checks = setInterval(() => void this.check(), CHECK_MS);
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  kill(reason?: Reason): void {
    this.#killedFor ??= reason;
    this.child.kill('SIGKILL');
  }

  async check(): Promise<void> {
    const reason = this.#program.check(await usageOf(this.child.pid));
    if (reason !== undefined) this.kill(reason);
  }

  /** Undefined when it has done its work. Throws when the signal has fired, or it never began: that says nothing about its input. */
  async end(): Promise<SandboxedEnd<Failure, Reason> | undefined> {
    const [exit, { atWork, failure }] = await Promise.all([this.exit, this.#report]);
    this.#signal.throwIfAborted();
    if (exit.code === 0) return undefined;
    if (!atWork && this.#killedFor === undefined) {
      throw new Error(`${this.#program.name} did not start: it ended with ${exit.code ?? exit.signal}`, {
        cause: exit.error,
      });
    }
    return { exit, failure, killedFor: this.#killedFor };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#checks);
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.child.kill('SIGKILL');
    await this.exit;
  }
}

function start(program: SandboxedProgram<string>): ChildProcess {
  const { input, limits, niceness } = program;
  const node = [process.execPath, nodeArguments(program)] as const;
  const [command, args] = withoutNewPrivileges(...(limits === undefined ? node : withProcessLimits(...node, limits)));
  const child = spawn(command, args, { stdio: [input, 'pipe', 'ignore', 'pipe'], env: {} });
  try {
    if (niceness !== undefined && child.pid !== undefined) setPriority(child.pid, niceness);
  } catch {
    // It has ended already, or this system does not allow it.
  }
  return child;
}

function nodeArguments({ entry, library, heapMegabytes, argument }: SandboxedProgram<string>) {
  const code = [entry, import.meta.filename].map(packageFolder);
  const paths = new Set([entry, ...code, ...moduleFolders(entry), ...moduleFolders(library)]);
  return [
    '--permission',
    // The seal is native code. Afterwards no other can be loaded.
    ...(process.platform === 'linux' ? ['--allow-addons'] : []),
    ...[...paths].map((path) => `--allow-fs-read=${path}`),
    '--no-warnings',
    `--max-old-space-size=${heapMegabytes}`,
    entry,
    JSON.stringify(argument),
  ];
}

async function usageOf(pid: number | undefined): Promise<ProcessUsage> {
  const read = (name: string) => readFile(`/proc/${pid}/${name}`, 'utf8').catch(() => '');
  const [status, stat] = await Promise.all([read('status'), read('stat')]);
  // The second field is the command in brackets. User and system time are fields 14 and 15.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return {
    memoryBytes: Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024,
    cpuSeconds: (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) / CLOCK_TICKS_PER_SECOND,
  };
}

interface Report<Failure> {
  /** The program has started, so its end says something about its input. */
  atWork: boolean;
  failure: Failure | undefined;
}

/** A process that is killed may leave a part of its report. */
async function readReport<Failure>(stream: Readable, onSeal: OnSeal | undefined): Promise<Report<Failure>> {
  let text = '';
  try {
    for await (const piece of stream.setEncoding('utf8')) {
      if (text.length < MAX_REPORT_CHARACTERS) text += piece;
    }
  } catch {
    // What was read counts.
  }
  const end = text.indexOf('\n');
  if (end >= 0) onSeal?.(text.slice(0, end) || undefined);
  return { atWork: end >= 0, failure: failureIn(text.slice(end + 1)) };
}

function failureIn<Failure>(text: string): Failure | undefined {
  try {
    return text === '' ? undefined : (JSON.parse(text) as Failure);
  } catch {
    return undefined;
  }
}
