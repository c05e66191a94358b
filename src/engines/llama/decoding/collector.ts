import { collectGarbage } from '../../../runtime/garbage-collection.ts';

const GENERATIONS = 32;

/**
 * Every generation leaves a native sampler behind, with a table of the whole vocabulary (0.4 to 2 MB) that the garbage collector
 * knows nothing of, so it would let hundreds of them pile up. The result is to be called after each generation.
 */
export function createCollector(): () => void {
  let generations = 0;
  return () => {
    if (++generations % GENERATIONS === 0) collectGarbage();
  };
}
