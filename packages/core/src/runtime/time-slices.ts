import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';

/** How long one piece of work may block the event loop. */
export const SLICE_MS = 4;

/** Work in the background gets about a third of the event loop while others use it. */
const BACKGROUND_PAUSE_MS = 2 * SLICE_MS;
/** A turn of the event loop that takes longer than this did work for others. */
const BUSY_TURN_MS = 0.1;

export interface TimeSliceOptions {
  sliceMs?: number;
  /** Leaves the event loop to others for most of the time, if they use it. */
  background?: boolean;
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

let lastInBackground: Promise<unknown> = Promise.resolve();

/** All work in the background shares one place, so that several large requests block no more than one does. */
function yieldInBackground(): Promise<unknown> {
  lastInBackground = lastInBackground.then(async () => {
    const began = performance.now();
    await yieldToEventLoop();
    if (performance.now() - began > BUSY_TURN_MS) await pause(BACKGROUND_PAUSE_MS);
  });
  return lastInBackground;
}

/** For long work in a loop: `if (slice.isOver()) await slice.next()`. */
export function createTimeSlice({
  sliceMs = SLICE_MS,
  background = false,
  signal,
  toError = ({ reason }) => reason,
}: TimeSliceOptions = {}): TimeSlice {
  let end = performance.now() + sliceMs;
  return {
    isOver: () => performance.now() > end,
    async next() {
      await (background ? yieldInBackground() : yieldToEventLoop());
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
