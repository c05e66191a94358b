import { setFlagsFromString } from 'node:v8';
import type { ResourceLimits } from 'node:worker_threads';

/** A database thread makes few objects and needs little of the room that the server's event loop has for young ones. */
const YOUNG_GENERATION_MB = 6;

/**
 * Limits for a new thread. Changes a V8 flag of the process: `--max-semi-space-size` on the command line would override the
 * thread's own limit. The event loop keeps its room, because V8 reads the flag only when a thread starts.
 */
export function threadMemoryLimits(): ResourceLimits {
  setFlagsFromString('--max-semi-space-size=0');
  return { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB };
}
