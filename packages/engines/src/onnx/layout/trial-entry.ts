import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { LayoutShape, MeasuredLayout } from '@baobab/core/engine/driver.ts';
import { endWithParent } from '@baobab/core/runtime/end-with-parent.ts';
import type { FromWorker, TrialOrder, WorkerOrder } from './trial-order.ts';

/** Entry of the process that compares layouts. Arguments: a `TrialOrder` as JSON and the process id of the parent. Prints the measured layouts as JSON. */

const WORKER = fileURLToPath(new URL('./trial-worker.ts', import.meta.url));

async function answer<T extends FromWorker['type']>(worker: ChildProcess, type: T) {
  const [message] = (await once(worker, 'message')) as [FromWorker];
  if (message.type !== type) throw new Error(`a process of the trial sent ${message.type} instead of ${type}`);
  return message as Extract<FromWorker, { type: T }>;
}

async function measureLayout(order: TrialOrder, { processes, threads }: LayoutShape): Promise<MeasuredLayout> {
  const { candidates: _, ...shared } = order;
  const workers = Array.from({ length: processes }, () => fork(WORKER));
  try {
    const ready = workers.map((worker) => answer(worker, 'ready'));
    for (const worker of workers) worker.send({ ...shared, threads } satisfies WorkerOrder);
    await Promise.all(ready);
    const done = workers.map((worker) => answer(worker, 'done'));
    for (const worker of workers) worker.send('go');
    const results = await Promise.all(done);
    const tokensPerSecond = results.reduce((sum, { tokens, ms }) => sum + (tokens / ms) * 1000, 0);
    return { processes, threads, tokensPerSecond };
  } finally {
    for (const worker of workers) worker.kill('SIGKILL');
  }
}

endWithParent(Number(process.argv[3]));
const order: TrialOrder = JSON.parse(process.argv[2] ?? '');
const measured: MeasuredLayout[] = [];
for (const candidate of order.candidates) measured.push(await measureLayout(order, candidate));
process.stdout.write(JSON.stringify(measured), () => process.exit(0));
