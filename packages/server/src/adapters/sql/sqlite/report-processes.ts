import { type ChildProcess, fork } from 'node:child_process';
import { dirname } from 'node:path';
import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import type { ReportReply, Statement, StatementResult } from './thread-messages.ts';

const PROGRAM = new URL('./report-process.ts', import.meta.url);
/** All but one end when they were not used for so long, or up to twice as long. Starting one blocks the event loop for milliseconds. */
const IDLE_MS = 30_000;
/** Rows of an answer; sorting is SQLite's own memory. */
const FLAGS = ['--max-old-space-size=256', '--max-semi-space-size=8', '--disable-warning=ExperimentalWarning'];

export interface ReportTurn {
  /** Kills the process, whatever it does. */
  signal: AbortSignal;
  /** Called when the process has the statement. */
  begun(): void;
}

/** As many processes with a read-only connection as reports run at once. Whoever asks bounds that. */
export class ReportProcesses {
  readonly #options: { path: string; busyTimeoutMs: number };
  /** The last used one is last. */
  readonly #idle: ChildProcess[] = [];
  readonly #all = new Set<ChildProcess>();
  /** Since the last time that idle ones were ended. */
  #used = new WeakSet<ChildProcess>();
  readonly #timer = setInterval(() => this.#endUnused(), IDLE_MS).unref();

  constructor(options: { path: string; busyTimeoutMs: number }) {
    this.#options = options;
  }

  run(statement: Statement, { signal, begun }: ReportTurn): Promise<StatementResult> {
    return new Promise((resolve, reject) => {
      const waiting = this.#idle.pop();
      const child = waiting ?? this.#start();
      this.#used.add(child);
      child.ref();
      child.channel?.ref();
      const kill = () => child.kill('SIGKILL');
      const end = () => {
        signal.removeEventListener('abort', kill);
        child.off('message', answer).off('exit', fail).off('error', fail);
        child.unref();
        child.channel?.unref();
      };
      const fail = () => {
        end();
        reject(new StoreUnavailableError('The process of a report has ended.'));
      };
      const answer = (reply: ReportReply) => {
        if (reply === 'ready') {
          begun();
          return;
        }
        end();
        if (!child.killed) this.#idle.push(child);
        if ('result' in reply) resolve(reply.result);
        else reject(new Error(reply.failure));
      };
      child.on('message', answer).on('exit', fail).on('error', fail);
      signal.addEventListener('abort', kill, { once: true });
      if (signal.aborted) kill();
      else child.send(statement);
      if (waiting !== undefined) begun();
    });
  }

  /** Those that do nothing: the next ones read the statistics of the database anew. */
  renew(): void {
    this.#endIdle(this.#idle.length);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(
      [...this.#all].map((child) => {
        const exited = new Promise((resolve) => child.once('exit', resolve));
        child.kill('SIGKILL');
        return exited;
      }),
    );
  }

  #endUnused(): void {
    const unused = this.#idle.filter((child) => !this.#used.has(child)).length;
    this.#used = new WeakSet();
    this.#endIdle(Math.min(unused, this.#idle.length - 1));
  }

  #endIdle(count: number): void {
    for (const child of this.#idle.splice(0, Math.max(0, count))) child.kill('SIGKILL');
  }

  #start(): ChildProcess {
    const { path, busyTimeoutMs } = this.#options;
    const child = fork(PROGRAM, [path, String(busyTimeoutMs)], {
      execArgv: FLAGS,
      // Files for sorting are deleted as soon as they are opened, so that none is left when the process is killed.
      env: { SQLITE_TMPDIR: dirname(path) },
    });
    this.#all.add(child);
    const forget = () => {
      this.#all.delete(child);
      const place = this.#idle.indexOf(child);
      if (place >= 0) this.#idle.splice(place, 1);
    };
    child.once('exit', forget).on('error', forget);
    return child;
  }
}
