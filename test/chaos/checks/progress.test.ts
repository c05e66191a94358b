import { expect, it } from 'vitest';
import { type Progress, whileProgressing } from './progress.ts';

const LIMITS = { everyMs: 1, stallMs: 60_000, totalMs: 60_000 };

const looks = (...all: (Progress | Error)[]) => {
  let at = 0;
  return async () => {
    const look = all[Math.min(at++, all.length - 1)];
    if (look === undefined || look instanceof Error) throw look;
    return look;
  };
};

it('waits until all is done, also past looks that fail', async () => {
  const look = looks(
    { done: 1, isOver: false },
    new Error('503'),
    { done: 5, isOver: false },
    { done: 6, isOver: true },
  );
  expect(await whileProgressing(look, LIMITS)).not.toHaveProperty('problem');
});

it('gives up when nothing happens for too long, or all of it takes too long', async () => {
  const stalled = whileProgressing(looks({ done: 1, isOver: false }), { ...LIMITS, stallMs: 20 });
  expect(await stalled).toMatchObject({ problem: 'without progress for 0.02 s' });
  const failing = whileProgressing(looks(new Error('503')), { ...LIMITS, stallMs: 20 });
  expect(await failing).toMatchObject({ problem: 'without progress for 0.02 s' });
  let done = 0;
  const slow = whileProgressing(async () => ({ done: done++, isOver: false }), { ...LIMITS, totalMs: 20 });
  expect(await slow).toMatchObject({ problem: 'not within 0.02 s' });
});
