import type { LlamaContext } from 'node-llama-cpp';
import { addonOf } from './addon.ts';
import type { Batching } from './batching.ts';
import { createDecodeLoop } from './decode-loop.ts';
import { DirectSequence } from './direct-sequence.ts';
import { librarySequence } from './library-sequence.ts';
import type { Sequence } from './sequence.ts';

export interface ContextSequences {
  sequences: readonly Sequence[];
  /** Waits for what is being computed, so that the context can be disposed of. */
  close(): Promise<void>;
}

export interface ContextSequencesOptions {
  context: LlamaContext;
  batching: Batching;
  /** Threads for the batch that `batching` has just chosen. */
  threads(): number;
  warn(text: string): void;
  /** Finds the native objects of the library. */
  find?: typeof addonOf;
}

/** All sequences of a context that nothing else uses. */
export function createSequences(options: ContextSequencesOptions): ContextSequences {
  const { context, batching, threads, warn, find = addonOf } = options;
  const own = Array.from({ length: context.totalSequences }, () => context.getSequence());
  const addon = own[0] && find(context, own[0]);
  if (addon === undefined) {
    warn('this version of node-llama-cpp is not known; models run by its public interface, which is slower');
    return { sequences: own.map(librarySequence), async close() {} };
  }
  const loop = createDecodeLoop({ context: addon.context, batching, batchSize: context.batchSize, threads });
  return {
    sequences: own.map((sequence, id) => new DirectSequence({ context, sequence, id, addon, loop })),
    close: () => loop.close(),
  };
}
