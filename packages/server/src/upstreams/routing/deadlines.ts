/** What must end by a time, and nearly always does. */
export interface Timed {
  /** Its index in the list, which sets it. */
  index: number;
  /** Milliseconds of `performance.now()`. It may change; `watch` must be called when it comes nearer. */
  readonly dueAt: number;
  expire(): void;
}

export const NOT_WATCHED = -1;
/** Node fires longer timers after one millisecond. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** Between two looks at the list. Whatever is due in between ends this much later. */
const PAUSE_MS = 10;

/** One timer for all calls to an upstream: a timer for each one takes about 1 % of the processor time of a small request. */
export class Deadlines {
  readonly #watched: Timed[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** When the timer fires. Usually nothing is due by then: what set it has ended. */
  #firesAt = Number.POSITIVE_INFINITY;

  watch(timed: Timed): void {
    if (timed.index === NOT_WATCHED) timed.index = this.#watched.push(timed) - 1;
    if (timed.dueAt < this.#firesAt) this.#wakeAt(timed.dueAt, performance.now());
  }

  forget(timed: Timed): void {
    const { index } = timed;
    if (index === NOT_WATCHED) return;
    timed.index = NOT_WATCHED;
    const last = this.#watched.pop();
    if (last === undefined || last === timed) return;
    this.#watched[index] = last;
    last.index = index;
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #wakeAt(time: number, now: number): void {
    clearTimeout(this.#timer);
    this.#firesAt = time;
    const delayMs = Math.min(Math.max(1, Math.ceil(time - now)), LONGEST_TIMER_MS);
    this.#timer = setTimeout(() => this.#look(), delayMs).unref();
  }

  #look(): void {
    const now = performance.now();
    this.#firesAt = Number.POSITIVE_INFINITY;
    for (const timed of this.#watched.filter(({ dueAt }) => dueAt <= now)) timed.expire();
    const next = this.#watched.reduce((earliest, { dueAt }) => Math.min(earliest, dueAt), Number.POSITIVE_INFINITY);
    if (next < Number.POSITIVE_INFINITY) this.#wakeAt(Math.max(next, now + PAUSE_MS), now);
  }
}
