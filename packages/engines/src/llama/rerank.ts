import type { LoadSpec } from '@baobab/core/engine/driver.ts';
import type { RerankCapability } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { LlamaModel } from 'node-llama-cpp';
import { createThreadGovernor } from './decoding/thread-governor.ts';
import { createTokenizerSlice } from './text/prompt-tokenizer.ts';

/** GGUF models with a ranking head: query and document are read together. */
export async function createRerankCapability(model: LlamaModel, spec: LoadSpec): Promise<RerankCapability> {
  const context = await model.createRankingContext({
    contextSize: spec.contextLength,
    batchSize: spec.contextLength,
    threads: spec.threads,
  });
  const governor = createThreadGovernor(spec.threads);
  return {
    async rerank({ query, documents }, { signal }) {
      const slice = createTokenizerSlice(signal);
      const scores = new Float32Array(documents.length);
      let tokens = 0;
      for (const [index, document] of documents.entries()) {
        const length = context.calculateInputLength(query, document);
        if (length > spec.contextLength) throw errors.contextTooLong(['documents', index], length, spec.contextLength);
        tokens += length;
        if (slice.isOver()) await slice.next();
      }
      for (const [index, document] of documents.entries()) {
        if (signal.aborted) throw errors.clientCancelled();
        model.llama.maxThreads = governor.threads();
        scores[index] = await context.rank(query, document);
      }
      return { scores, tokens };
    },
  };
}
