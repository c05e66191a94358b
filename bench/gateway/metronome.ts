/** Signals when the next request is due. Sleeps in between, because a busy loop halves the speed of the neighbouring core. */
import { parentPort, workerData } from 'node:worker_threads';

const { perSecond, beats } = workerData as { perSecond: number; beats: number };
const sleeper = new Int32Array(new SharedArrayBuffer(4));
const startedAt = performance.now();

for (let beat = 1; beat <= beats; beat += 1) {
  const restMs = startedAt + (beat * 1000) / perSecond - performance.now();
  if (restMs > 0) Atomics.wait(sleeper, 0, 0, restMs);
  parentPort?.postMessage(beat);
}
