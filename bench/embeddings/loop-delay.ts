/** Loaded into a server: prints the longest block of its event loop since the last time, whenever it is asked by a signal. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

if (isMainThread) {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  process.on('SIGUSR2', () => {
    process.stderr.write(`longest block ${delay.max / 1e6} ms\n`);
    delay.reset();
  });
}
