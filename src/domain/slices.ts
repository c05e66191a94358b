import { setImmediate as nextTurn } from 'node:timers/promises';

/** How long one piece of work may keep everything else waiting. */
export const SLICE_MS = 4;

let last: Promise<unknown> = Promise.resolve();

/** Resolves when everything else has had its turn. Those who wait come one in each round of the event loop, not all in one. */
export function othersFirst(): Promise<unknown> {
  last = last.then(() => nextTurn());
  return last;
}

/** Tells long work when to pause: `if (slice.isOver()) await slice.next()`. The signal ends it there. */
export function createSlice(signal?: AbortSignal) {
  let ends = performance.now() + SLICE_MS;
  return {
    isOver: () => performance.now() > ends,
    async next(): Promise<void> {
      await othersFirst();
      signal?.throwIfAborted();
      ends = performance.now() + SLICE_MS;
    },
  };
}

/** Runs work that yields wherever it may pause; its steps should be short against a slice. */
export async function inSlices<T>(steps: Generator<void, T>, signal?: AbortSignal): Promise<T> {
  const slice = createSlice(signal);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    if (slice.isOver()) await slice.next();
  }
}
