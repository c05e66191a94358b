import { describe, expect, it } from 'vitest';
import { createTimeSlice, runInTimeSlices, SLICE_MS, yieldToEventLoop } from './time-slices.ts';

/** Every step takes half a slice of the processor. */
function* busySteps(count: number): Generator<void, string> {
  for (let step = 0; step < count; step += 1) {
    const until = performance.now() + SLICE_MS / 2;
    while (performance.now() < until);
    yield;
  }
  return 'done';
}

function countTurns() {
  let turns = 0;
  let next = setImmediate(function count() {
    turns += 1;
    next = setImmediate(count);
  });
  return {
    turns: () => turns,
    [Symbol.dispose]: () => clearImmediate(next),
  };
}

describe('work in time slices', () => {
  it('yields to the event loop every few steps and returns the result', async () => {
    using counter = countTurns();
    expect(await runInTimeSlices(busySteps(20))).toBe('done');
    expect(counter.turns()).toBeGreaterThanOrEqual(6);
  });

  it('stops at its next pause when the signal has fired', async () => {
    const stop = new AbortController();
    const work = runInTimeSlices(busySteps(1_000), { signal: stop.signal });
    stop.abort(new Error('gone'));
    await expect(work).rejects.toThrow('gone');
  });

  it('throws the error that the caller maps the signal to', async () => {
    const slice = createTimeSlice({
      sliceMs: 0,
      signal: AbortSignal.abort(new Error('gone')),
      toError: () => new Error('cancelled'),
    });
    await expect(slice.next()).rejects.toThrow('cancelled');
  });

  it('resumes one waiting piece of work for each round of the event loop', async () => {
    using counter = countTurns();
    await Promise.all([yieldToEventLoop(), yieldToEventLoop(), yieldToEventLoop()]);
    expect(counter.turns()).toBeGreaterThanOrEqual(2);
  });
});

describe('work in the background', () => {
  /** Uses a quarter of a millisecond in every turn of the event loop, and counts the turns. */
  function busyTurns() {
    let turns = 0;
    let next = setImmediate(function work() {
      const until = performance.now() + 0.25;
      while (performance.now() < until);
      turns += 1;
      next = setImmediate(work);
    });
    return {
      turns: () => turns,
      [Symbol.dispose]: () => clearImmediate(next),
    };
  }
  const turnsOfOthers = async (background: boolean) => {
    using others = busyTurns();
    await Promise.all([1, 2].map(() => runInTimeSlices(busySteps(20), { background })));
    return others.turns();
  };

  it('leaves the event loop to others for most of the time', async () => {
    expect(await turnsOfOthers(true)).toBeGreaterThan(4 * (await turnsOfOthers(false)));
  });

  it('returns its result', async () => {
    expect(await runInTimeSlices(busySteps(5), { background: true })).toBe('done');
  });
});
