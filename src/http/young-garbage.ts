import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collect = (options: { type: 'minor' }) => void;

/** Node has no other way to ask for a collection at run time. */
function exposeCollector(): Collect {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as Collect;
  setFlagsFromString('--no-expose-gc');
  return collect;
}

let collect: Collect | undefined;

/** Looks through all that was made since the last time, so the sooner the shorter: a millisecond or two for as many megabytes. */
export function collectYoung(): void {
  collect ??= exposeCollector();
  collect({ type: 'minor' });
}

const EVERY_BYTES = 8_388_608;

/**
 * Passes a large upload on and sweeps up behind it. Each chunk from a socket is 64 kB outside of the heap and almost
 * nothing inside, so that V8 sees no reason to collect before 64 MB have gathered; a minor collection takes about a millisecond.
 */
export async function* sweptUp(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of source) {
    bytes += chunk.length;
    if (bytes >= EVERY_BYTES) {
      bytes = 0;
      collectYoung();
    }
    yield chunk;
  }
}
