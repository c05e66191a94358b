/** Preloaded into a server. On a signal it prints the longest block of the event loop since the previous signal. */
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
