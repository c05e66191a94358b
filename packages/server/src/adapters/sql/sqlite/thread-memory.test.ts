import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { SERVE_FLAGS } from '../../../../../../bin/serve-flags.mjs';

const inThread = `
  import { getHeapSpaceStatistics } from 'node:v8';
  import { parentPort } from 'node:worker_threads';
  const kept = [];
  for (let round = 0; round < 2_000_000; round += 1) kept[round % 100_000] = { round };
  const young = getHeapSpaceStatistics().find((space) => space.space_name === 'new_space');
  parentPort.postMessage(young.space_size / 2 ** 20);
`;
const script = `
  import { Worker } from 'node:worker_threads';
  const { threadMemoryLimits } = await import(${JSON.stringify(import.meta.resolve('./thread-client.ts'))});
  const resourceLimits = threadMemoryLimits();
  const worker = new Worker(${JSON.stringify(inThread)}, { eval: true, resourceLimits });
  worker.on('message', (mb) => console.log(mb, resourceLimits.maxYoungGenerationSizeMb));
`;

it('threads keep their own limit for young objects under the flags of the server', async () => {
  const args = [...SERVE_FLAGS, '--input-type=module', '--eval', script];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  const [used = Number.NaN, limit] = stdout.trim().split(' ').map(Number);
  expect(used).toBeGreaterThan(0);
  expect(used).toBeLessThanOrEqual(limit ?? 0);
});
