import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobTurns } from '../../packages/core/src/ports/job-turns.ts';

export interface JobTurnsUnderTest {
  jobTurns: JobTurns;
  close(): Promise<void>;
}

/** Every store of turns behaves like this. */
export function jobTurnsContract(name: string, open: () => Promise<JobTurnsUnderTest>): void {
  describe(`turns of jobs: ${name}`, () => {
    let store: JobTurnsUnderTest;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    it('gives each turn to one of many processes that ask at once', async () => {
      for (const now of [1_000, 61_000]) {
        const asked = Array.from({ length: 20 }, () => store.jobTurns.take('sweep', { now, everyMs: 60_000 }));
        expect((await Promise.all(asked)).filter(Boolean)).toHaveLength(1);
      }
    });

    it('keeps jobs apart, and gives no turn before its time', async () => {
      expect(await store.jobTurns.take('one', { now: 0, everyMs: 1_000 })).toBe(true);
      expect(await store.jobTurns.take('two', { now: 0, everyMs: 1_000 })).toBe(true);
      expect(await store.jobTurns.take('one', { now: 999, everyMs: 1_000 })).toBe(false);
      expect(await store.jobTurns.take('one', { now: 1_000, everyMs: 1_000 })).toBe(true);
      expect(await store.jobTurns.take('one', { now: 1_001, everyMs: 1_000 })).toBe(false);
    });

    it('goes on when the clock is set back', async () => {
      const hour = 3_600_000;
      expect(await store.jobTurns.take('back', { now: 2 * hour, everyMs: 1_000 })).toBe(true);
      expect(await store.jobTurns.take('back', { now: hour, everyMs: 1_000 })).toBe(true);
      expect(await store.jobTurns.take('back', { now: hour, everyMs: 1_000 })).toBe(false);
      // Clocks of servers differ a little.
      expect(await store.jobTurns.take('back', { now: hour - 999, everyMs: 1_000 })).toBe(false);
    });
  });
}
