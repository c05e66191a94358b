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
