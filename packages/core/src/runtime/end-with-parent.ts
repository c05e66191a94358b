import { Worker } from 'node:worker_threads';

const SCRIPT = `const { workerData: parent } = require('node:worker_threads');
  setInterval(() => { if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL'); }, 1000);`;

/**
 * Ends this process within a second of its parent, however that ended. It watches in a thread, because native code may keep the event
 * loop of this one. The parent passes its own id: read here, it could be that of the process that inherited the orphan.
 */
export function endWithParent(parent: number): void {
  const watchdog = new Worker(SCRIPT, {
    eval: true,
    workerData: parent,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 2, stackSizeMb: 1 },
  });
  watchdog.unref();
}
