import { setImmediate as nextTurn } from 'node:timers/promises';
import { errors } from '../../../errors/errors.ts';

/** Nobody else gets anything done, and no heartbeat leaves, while native code tokenizes. */
const SLICE_MS = 10;

/** To be awaited between the steps of long work: lets others go on when it is their turn, and stops when the client is gone. */
export function createTurns(signal: AbortSignal): () => Promise<void> {
  let sliceEnd = performance.now() + SLICE_MS;
  return async () => {
    if (performance.now() < sliceEnd) return;
    await nextTurn();
    if (signal.aborted) throw errors.clientCancelled();
    sliceEnd = performance.now() + SLICE_MS;
  };
}
