/** Loaded into a server with `--import`: prints the heap after a full collection on SIGUSR2. Needs `--expose-gc`. */
import { isMainThread } from 'node:worker_threads';

const COLLECTIONS = 4;

if (isMainThread) {
  process.on('SIGUSR2', () => {
    // What finalizers free goes with the next one.
    for (let left = COLLECTIONS; left > 0; left -= 1) globalThis.gc?.();
    console.log(`heap ${process.memoryUsage().heapUsed}`);
  });
}
