import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import type { ReportCaller } from '@baobab/core/ports/reports.ts';
import { ReportTooLongError } from '@baobab/core/ports/store-errors.ts';

/** Statements of reports that run at once, in one process. */
export const REPORTS_AT_ONCE = 4;
/** Those of one account, so that another one need not wait until one ends. */
const OF_ACCOUNT = REPORTS_AT_ONCE - 1;
/** Those that take longer than this. The other turn is for short ones only. */
const LONG_AT_ONCE = REPORTS_AT_ONCE - 1;
const LONG_OF_ACCOUNT = 2;
const QUICK_MS = 1_000;

export interface ReportTurnsOptions {
  /** How long one report may work in all. Without end by default. */
  limitMs?: number | undefined;
  quickMs?: number | undefined;
}

/** Does its work until the signal fires, and may then end in any way. Says when the database has begun with it. */
type Work<T> = (signal: AbortSignal, begun: () => void) => Promise<T>;
export type RunStatement = <T>(work: Work<T>) => Promise<T>;

interface Job {
  accountId: string;
  isLong: boolean;
  work: Work<unknown>;
  limitMs: number;
  signal: AbortSignal | undefined;
  resolve(value: unknown): void;
  reject(reason: unknown): void;
}

/** Why a statement was ended that starts again later. */
const POSTPONED = Symbol('postponed');

/**
 * Lets a few statements of reports run at once. The account that runs fewest is next. One that takes long and finds no turn for long ones
 * is ended and starts again when there is one, so that short ones never wait longer than a moment.
 */
export class ReportTurns {
  readonly #waiting = new Set<Job>();
  readonly #running = new Map<Job, AbortController>();
  readonly #limitMs: number;
  readonly #quickMs: number;
  #closed: StoreUnavailableError | undefined;

  constructor({ limitMs = Number.POSITIVE_INFINITY, quickMs = QUICK_MS }: ReportTurnsOptions = {}) {
    this.#limitMs = limitMs;
    this.#quickMs = quickMs;
  }

  /** Runs the statements of one report, which share its time. Without a caller, it is work of the server itself and has no limit. */
  begin(caller?: ReportCaller): RunStatement {
    const { accountId, signal } = caller ?? { accountId: '' };
    let usedMs = 0;
    return async (work) => {
      const limitMs = caller === undefined ? Number.POSITIVE_INFINITY : this.#limitMs - usedMs;
      const timed: typeof work = async (stop, begun) => {
        const began = performance.now();
        const result = await work(stop, begun);
        usedMs += performance.now() - began;
        return result;
      };
      return this.#run(timed, { accountId, limitMs, signal });
    };
  }

  /** Ends all of them. */
  close(): void {
    this.#closed = new StoreUnavailableError('The database is closed.');
    for (const job of this.#waiting) job.reject(this.#closed);
    this.#waiting.clear();
    for (const attempt of this.#running.values()) attempt.abort(this.#closed);
  }

  #run<T>(work: Work<T>, { accountId, limitMs, signal }: ReportCaller & { limitMs: number }): Promise<T> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    if (signal?.aborted) return Promise.reject(cancellation(signal));
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const job: Job = { accountId, isLong: false, work, limitMs, signal, resolve, reject };
    const leave = () => {
      if (signal === undefined) return;
      if (this.#waiting.delete(job)) reject(cancellation(signal));
      else this.#running.get(job)?.abort(cancellation(signal));
    };
    signal?.addEventListener('abort', leave, { once: true });
    this.#waiting.add(job);
    this.#beginNext();
    return promise.finally(() => signal?.removeEventListener('abort', leave)) as Promise<T>;
  }

  #count(matches: (job: Job) => boolean): number {
    let count = 0;
    for (const job of this.#running.keys()) if (matches(job)) count += 1;
    return count;
  }

  #hasRoomForLong({ accountId }: Job): boolean {
    return (
      this.#count(({ isLong }) => isLong) < LONG_AT_ONCE &&
      this.#count((job) => job.isLong && job.accountId === accountId) < LONG_OF_ACCOUNT
    );
  }

  #beginNext(): void {
    while (this.#running.size < REPORTS_AT_ONCE) {
      let next: Job | undefined;
      let fewest = Number.POSITIVE_INFINITY;
      for (const job of this.#waiting) {
        const running = this.#count(({ accountId }) => accountId === job.accountId);
        if (running >= Math.min(fewest, OF_ACCOUNT) || (job.isLong && !this.#hasRoomForLong(job))) continue;
        [next, fewest] = [job, running];
      }
      if (next === undefined) return;
      this.#waiting.delete(next);
      void this.#attempt(next);
    }
  }

  async #attempt(job: Job): Promise<void> {
    const attempt = new AbortController();
    this.#running.set(job, attempt);
    const limit = Number.isFinite(job.limitMs)
      ? setTimeout(() => attempt.abort(new ReportTooLongError(this.#limitMs)), Math.max(0, job.limitMs))
      : undefined;
    let quick: NodeJS.Timeout | undefined;
    const begun = () => {
      if (!job.isLong) quick = setTimeout(() => this.#becomeLong(job, attempt), this.#quickMs);
    };
    try {
      job.resolve(await job.work(attempt.signal, begun));
    } catch (error) {
      const { aborted, reason } = attempt.signal;
      if (!aborted) job.reject(error);
      else if (reason !== POSTPONED || this.#closed !== undefined) job.reject(this.#closed ?? reason);
      else if (job.signal?.aborted) job.reject(cancellation(job.signal));
      else this.#waiting.add(job);
    }
    clearTimeout(limit);
    clearTimeout(quick);
    this.#running.delete(job);
    this.#beginNext();
  }

  #becomeLong(job: Job, attempt: AbortController): void {
    const hasRoom = this.#hasRoomForLong(job);
    job.isLong = true;
    if (!hasRoom) attempt.abort(POSTPONED);
  }
}
