import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collect = (options?: { type: 'minor' }) => void;

let collect: Collect | undefined;

/** V8 offers a collection at run time only behind this flag. */
function exposeCollect(): Collect {
  setFlagsFromString('--expose-gc');
  const exposed = runInNewContext('gc') as Collect;
  setFlagsFromString('--no-expose-gc');
  return exposed;
}

/** Frees everything that is unreachable. Blocks for as long as the whole heap takes. */
export function collectGarbage(): void {
  collect ??= exposeCollect();
  collect();
}

/** Frees only what was allocated since the last collection: a millisecond or two for as many megabytes. */
export function collectYoungGarbage(): void {
  collect ??= exposeCollect();
  collect({ type: 'minor' });
}

const COLLECT_EVERY_BYTES = 8_388_608;
let usedBytes = 0;

/**
 * To be called for each chunk of a file or body that has been used. It has its bytes outside of the heap and almost nothing inside, so V8
 * would collect only after 64 MB, and then all objects. Every 8 MB, the young ones are collected.
 */
export function chunkUsed(bytes: number): void {
  usedBytes += bytes;
  if (usedBytes < COLLECT_EVERY_BYTES) return;
  usedBytes = 0;
  collectYoungGarbage();
}
