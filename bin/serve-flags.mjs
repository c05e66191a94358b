/**
 * Node's flags for the server. Reasons and measurements: docs/decisions/2026-11-15-node-flags.md.
 * V8 reads some of them only at start, so they go on the command line.
 */
import { availableParallelism } from 'node:os';

/** Threads for file work. Node's default of four could all be syncing uploads while the ledger waits. */
export const FILE_THREADS = '16';

/** Node's default number of V8 worker threads. */
const MOST_HELPERS = 4;
const helpers = Math.max(1, Math.min(MOST_HELPERS, availableParallelism() - 1));

export const SERVE_FLAGS = [
  // Puts Node's machine code on large pages where the system has them.
  '--use-largepages=silent',
  // A fixed size for the young generation: small enough for short collections, and not shrunk when idle.
  '--min-semi-space-size=8',
  '--max-semi-space-size=8',
  // Keeps the hidden classes of objects that no request holds, and the compiled code that depends on them.
  '--retain-maps-for-n-gc=1000000',
  '--no-memory-reducer-favors-memory',
  // All old objects are collected when they take three times what the last collection left. V8 lowers that limit while the server is idle,
  // and would collect in the middle of the next burst.
  '--heap-growing-percent=200',
  // Threads that collect and compile. With more than the other cores they would compete with the event loop.
  `--v8-pool-size=${helpers}`,
];
