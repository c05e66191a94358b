import { setImmediate as nextTurn } from 'node:timers/promises';

/** How long one piece of work may block the event loop. */
export const SLICE_MS = 4;

export interface TimeSliceOptions {
  sliceMs?: number;
  /** Ends the work at its next pause. */
  signal?: AbortSignal | undefined;
  /** The error thrown when the signal has fired. Its reason by default. */
  toError?: (signal: AbortSignal) => unknown;
}

export interface TimeSlice {
  isOver(): boolean;
  /** Yields to the event loop and starts a new slice. */
  next(): Promise<void>;
}

let last: Promise<unknown> = Promise.resolve();

/** Work that waits here resumes one piece for each round of the event loop, not all in the same round. */
export function yieldToEventLoop(): Promise<unknown> {
  last = last.then(() => nextTurn());
  return last;
}

/** For long work in a loop: `if (slice.isOver()) await slice.next()`. */
export function createTimeSlice({
  sliceMs = SLICE_MS,
  signal,
  toError = ({ reason }) => reason,
}: TimeSliceOptions = {}): TimeSlice {
  let end = performance.now() + sliceMs;
  return {
    isOver: () => performance.now() > end,
    async next() {
      await yieldToEventLoop();
      if (signal?.aborted) throw toError(signal);
      end = performance.now() + sliceMs;
    },
  };
}

/** Runs a generator that yields wherever it may pause. Its steps should be short compared to a slice. */
export async function runInTimeSlices<T>(steps: Generator<void, T>, options: TimeSliceOptions = {}): Promise<T> {
  const slice = createTimeSlice(options);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    if (slice.isOver()) await slice.next();
  }
}
