import { openSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { spawnChild } from '../child-process.ts';

/** Entry of a process that starts an engine process when it has no file descriptor left. Prints what happened. */

const logger = { debug() {}, info() {}, warn() {}, error() {} };
try {
  while (true) openSync('/dev/null', 'r');
} catch {}
let outcome = 'it was started';
try {
  spawnChild({ flags: [], restricted: false, environment: {}, logger, model: 'test' });
} catch (error) {
  outcome = String(error);
}
await nextTurn();
process.stdout.write(outcome);
