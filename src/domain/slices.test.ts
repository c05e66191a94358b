import { describe, expect, it } from 'vitest';
import { inSlices, othersFirst, SLICE_MS } from './slices.ts';

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

describe('work in slices', () => {
  it('lets everything else have its turn every few steps, and gives the result', async () => {
    using counter = countTurns();
    expect(await inSlices(busySteps(20))).toBe('done');
    expect(counter.turns()).toBeGreaterThanOrEqual(6);
  });

  it('ends at its next pause when nobody wants the result any more', async () => {
    const stop = new AbortController();
    const work = inSlices(busySteps(1_000), stop.signal);
    stop.abort(new Error('gone'));
    await expect(work).rejects.toThrow('gone');
  });

  it('comes one in each round when several wait', async () => {
    using counter = countTurns();
    await Promise.all([othersFirst(), othersFirst(), othersFirst()]);
    expect(counter.turns()).toBeGreaterThanOrEqual(2);
  });
});
