import { once } from 'node:events';
import { openSession } from '../session.ts';
import { type FromWorker, TRIAL_BATCH, type WorkerOrder } from './trial-order.ts';

/** One engine process of a trial: runs batches for a while and reports how many tokens that were. */

const WARM_UP_RUNS = 2;
const MEASURE_MS = 400;
/** Any token that every vocabulary has. */
const TOKEN = 5;

const send = (message: FromWorker) => process.send?.(message);
process.on('disconnect', () => process.exit(0));

const [order] = (await once(process, 'message')) as [WorkerOrder];
const session = await openSession({
  model: order.model,
  threads: order.threads,
  padId: 0,
  rowWiseRanges: order.rowWiseRanges,
  outputs: [],
});
const { rows, tokens } = TRIAL_BATCH;
const ids = new Int32Array(tokens).fill(TOKEN);
const batch = { sequences: Array.from({ length: rows }, () => ({ ids })), length: tokens };
for (let run = 0; run < WARM_UP_RUNS; run += 1) await session.run(batch);
send({ type: 'ready' });
await once(process, 'message');
const began = performance.now();
let runs = 0;
while (performance.now() - began < MEASURE_MS) {
  await session.run(batch);
  runs += 1;
}
send({ type: 'done', tokens: runs * rows * tokens, ms: performance.now() - began });
