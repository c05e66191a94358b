import { expect, it } from 'vitest';
import { createFileRetentionSchedule } from './file-retention-schedule.ts';

/** Starts a schedule, lets it take its first turn and returns what it did. */
async function firstSteps(turns: { sweep: boolean; recovery: boolean }): Promise<string[]> {
  const done: string[] = [];
  const step = (name: string) => async () => {
    done.push(name);
    return 0;
  };
  const { promise: asked, resolve } = Promise.withResolvers<void>();
  const schedule = createFileRetentionSchedule({
    retention: {
      removeDiscarded: step('discarded'),
      removeOrphans: step('orphans'),
      async sweep() {
        done.push('sweep');
        return { expired: 0, removed: 0 };
      },
    },
    removeInterrupted: step('interrupted'),
    removeBatchLeftovers: step('results of batches'),
    everyMs: 1_000_000,
    async isMyTurn() {
      resolve();
      return turns.sweep;
    },
    isMyTurnToRecover: async () => turns.recovery,
    logger: { info() {}, error: (facts, text) => expect.unreachable(`${text} ${JSON.stringify(facts)}`) },
    stopping: new AbortController(),
  });
  schedule.start();
  await asked;
  await schedule.stop();
  return done;
}

const RECOVERY = ['interrupted', 'orphans', 'results of batches'];

it('removes what a crash left behind, then sweeps', async () => {
  expect(await firstSteps({ sweep: true, recovery: true })).toEqual([...RECOVERY, 'sweep']);
});

it('leaves each of the two to another server when it is not its turn', async () => {
  expect(await firstSteps({ sweep: true, recovery: false })).toEqual(['sweep']);
  expect(await firstSteps({ sweep: false, recovery: true })).toEqual(RECOVERY);
});
