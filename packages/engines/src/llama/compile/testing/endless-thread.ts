import { parentPort } from 'node:worker_threads';

/** Stands for a schema that escapes the step budget. */
parentPort?.on('message', () => {
  for (;;);
});
parentPort?.postMessage({ type: 'ready' });
