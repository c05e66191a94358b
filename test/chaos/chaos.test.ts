import { describe, expect, it } from 'vitest';
import { clusterMissing } from './cluster/cluster.ts';
import { runExperiment } from './experiment.ts';

if (clusterMissing !== undefined) console.warn(`The chaos test is skipped: ${clusterMissing}`);

describe.skipIf(clusterMissing !== undefined)('three servers whose parts fail', () => {
  // A short run of `npm run chaos`, which says more. The seed decides which parts fail and when.
  it('bill exactly, lose no file, run each line once and answer each key once', async () => {
    const { findings } = await runExperiment({
      seed: 5,
      totalMs: 12_000,
      kinds: ['kill', 'redis', 'postgres-fast', 'postgres-immediate', 'cut-postgres'],
      print: () => {},
      load: 0.4,
      anyMachine: true,
    });
    expect(findings).toEqual([]);
  }, 1_200_000);
});
