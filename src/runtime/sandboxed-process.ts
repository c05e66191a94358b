import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';

/** On this descriptor a sandboxed program writes `AT_WORK` when its code is loaded, and a failure as JSON if it refuses its input. */
export const REPORT_DESCRIPTOR = 3;
export const AT_WORK = '\n';

const MAX_REPORT_CHARACTERS = 65_536;

export interface ProcessReport<Failure> {
  /** The program has started, so its end says something about its input. */
  atWork: boolean;
  failure: Failure | undefined;
}

export interface ProcessExit {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** It could not be started. */
  error?: Error;
}

/** A process that works on one input. It is killed when the signal fires or it is disposed of. */
export class SandboxedProcess<Failure, Reason extends string> implements AsyncDisposable {
  readonly child: ChildProcess;
  readonly exit: Promise<ProcessExit>;
  readonly report: Promise<ProcessReport<Failure>>;
  readonly #signal: AbortSignal;
  readonly #onAbort = () => this.kill();
  #killedFor: Reason | undefined;

  constructor(child: ChildProcess, signal: AbortSignal) {
    this.child = child;
    this.#signal = signal;
    this.exit = new Promise((resolve) => {
      child.once('close', (code, by) => resolve({ code, signal: by }));
      child.once('error', (error) => resolve({ code: null, signal: null, error }));
    });
    this.report = readReport(child.stdio[REPORT_DESCRIPTOR] as Readable);
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** The first reason that it was killed for. */
  get killedFor(): Reason | undefined {
    return this.#killedFor;
  }

  kill(reason?: Reason): void {
    this.#killedFor ??= reason;
    this.child.kill('SIGKILL');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.child.kill('SIGKILL');
    await this.exit;
  }
}

/** A process that is killed may leave a part of its report. */
async function readReport<Failure>(stream: Readable): Promise<ProcessReport<Failure>> {
  let text = '';
  try {
    for await (const piece of stream.setEncoding('utf8')) {
      if (text.length < MAX_REPORT_CHARACTERS) text += piece;
    }
    const failure = text.slice(AT_WORK.length);
    return {
      atWork: text.startsWith(AT_WORK),
      failure: failure === '' ? undefined : (JSON.parse(failure) as Failure),
    };
  } catch {
    return { atWork: text.startsWith(AT_WORK), failure: undefined };
  }
}
