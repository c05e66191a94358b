/**
 * How Node is told to run the server; why, and what each brings: docs/decisions/2026-11-15-node-flags.md.
 * V8 looks at some of them only when it starts, so they are given on the command line.
 */
import { availableParallelism } from 'node:os';

/** File work of all kinds shares these threads. Four of them, Node's own number, could all be syncing uploads while the ledger waits. */
export const FILE_THREADS = '16';

/** Node's own number of V8's helping threads, which it takes on one core too. */
const MOST_HELPERS = 4;
const helpers = Math.max(1, Math.min(MOST_HELPERS, availableParallelism() - 1));

export const SERVE_FLAGS = [
  // Node's own machine code on large pages, where the system has them.
  '--use-largepages=silent',
  // Room for young objects that neither shrinks in quiet moments nor grows until their collection takes long and comes seldom.
  '--min-semi-space-size=16',
  '--max-semi-space-size=16',
  // The shapes of objects that no request happens to hold stay known, and with them the compiled code that relies on them.
  '--retain-maps-for-n-gc=1000000',
  '--no-memory-reducer-favors-memory',
  // Threads that collect and compile beside the event loop: with more of them than other cores they take turns with it on its own.
  `--v8-pool-size=${helpers}`,
];
